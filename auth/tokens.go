package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"dlqmanager/dlq"
)

const (
	// tokensFresh is the shortest time between two readings of the file.
	tokensFresh = time.Second
	// rereadPause is the pause before a changed file is read a second time. The request waits for the second reading, so that a
	// revoked token is refused even in the first request after the revocation.
	rereadPause = 50 * time.Millisecond
)

// Tokens has the static tokens of a file. A changed file is read again. If the file has an error, the earlier tokens stay.
type Tokens struct {
	path string
	log  *zap.Logger
	now  func() time.Time
	// pause sleeps for rereadPause.
	pause func()

	mu     sync.Mutex
	read   time.Time // when the latest reading began
	data   []byte    // the content of the file, from which tokens was read
	tokens []staticToken
	broken error     // the error of the latest reading
	since  time.Time // when the readings began to fail
}

// NewTokens reads the file.
func NewTokens(path string, log *zap.Logger) (*Tokens, error) {
	t := &Tokens{path: path, log: log, now: time.Now, pause: func() { time.Sleep(rereadPause) }}
	t.read = t.now()
	if err := t.reload(); err != nil {
		return nil, err
	}
	return t, nil
}

// Authenticate accepts the tokens of the file.
func (t *Tokens) Authenticate(_ context.Context, token string) (dlq.Principal, error) {
	if err := checkSize(token); err != nil {
		return dlq.Principal{}, err
	}
	if !strings.HasPrefix(token, tokenPrefix) {
		return dlq.Principal{}, errForeign()
	}
	hash := sha256.Sum256([]byte(token))
	var found *staticToken
	tokens := t.current()
	for i := range tokens { // compares all tokens, so that the time does not depend on the token
		if subtle.ConstantTimeCompare(hash[:], tokens[i].hash[:]) == 1 {
			found = &tokens[i]
		}
	}
	if found == nil {
		return dlq.Principal{}, refuse(ReasonUnknown, "the token is unknown")
	}
	if !found.expires.IsZero() && !t.now().Before(found.expires) {
		return dlq.Principal{}, refuse(ReasonExpired, "the token has expired")
	}
	return dlq.Principal{Subject: found.name, Method: "token", Grants: found.grants}, nil
}

// Check is a readiness check. It returns a notice while the file has an error.
func (t *Tokens) Check(context.Context) error {
	t.current()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken == nil {
		return nil
	}
	return &dlq.NoticeError{Notice: fmt.Sprintf(
		"the file of tokens has an error since %s; its earlier tokens remain valid", t.since.UTC().Format(time.RFC3339))}
}

// current returns the tokens of the file. It reads the file if the latest reading is older than tokensFresh.
func (t *Tokens) current() []staticToken {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.now(); now.Sub(t.read) >= tokensFresh {
		t.read = now
		t.report(t.reload())
	}
	return t.tokens
}

// reload reads the file. It uses new content if a second reading finds the same content. A file that is still being written may
// lack the topics or the expiry of its last token. If the contents differ, the error of the earlier reading stays.
func (t *Tokens) reload() error {
	data, err := readTokensFile(t.path)
	if err != nil || t.data != nil && bytes.Equal(data, t.data) {
		return err
	}
	if t.data != nil {
		t.pause()
		if again, err := readTokensFile(t.path); err != nil || !bytes.Equal(data, again) {
			return t.broken
		}
	}
	tokens, err := parseTokens(data)
	if err != nil {
		return fmt.Errorf("%s: %w", t.path, err)
	}
	t.data, t.tokens = data, tokens
	t.log.Info("read the tokens", zap.String("file", t.path), zap.Int("tokens", len(tokens)))
	return nil
}

// report logs when an error begins, changes and ends. It does not log every reading.
func (t *Tokens) report(err error) {
	switch {
	case err == nil && t.broken != nil:
		t.log.Info("the file of tokens is valid again", zap.String("file", t.path))
	case err != nil && fmt.Sprint(err) != fmt.Sprint(t.broken):
		t.log.Error("the file of tokens has an error; its earlier tokens remain valid", zap.Error(err))
	}
	if t.broken == nil {
		t.since = t.read
	}
	t.broken = err
}
