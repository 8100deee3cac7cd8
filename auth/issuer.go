package auth

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"

	"dlqmanager/dlq"
)

// Times for fetching and keeping the keys of a provider.
const (
	// keysEvery is the time between two fetches of the keys. A removed key is accepted for at most this time.
	keysEvery = time.Minute
	// keysRetry is the time between two attempts while the provider does not answer.
	keysRetry = 10 * time.Second
	// keysPause is the shortest time between two fetches for unknown keys, whichever clients send tokens with unknown keys.
	keysPause = 5 * time.Second
	// keysValid is how long the known keys are accepted while the provider does not answer.
	keysValid = time.Hour
)

var errNoProvider = fmt.Errorf("%w: the identity provider does not answer", dlq.ErrUnavailable)

// issuer has the keys of an identity provider.
type issuer struct {
	options OIDCOptions
	log     *zap.Logger

	mu      sync.Mutex
	known   *metadata // nil before the first fetch has succeeded
	fetched time.Time // when the fetch of known began
	asked   time.Time // when the latest fetch began
	failed  error     // the error of the latest fetch
	since   time.Time // when the fetches began to fail

	fetches  singleflight.Group
	fetching bool
}

func newIssuer(options OIDCOptions) *issuer {
	return &issuer{options: options, log: options.Log, failed: errors.New("not asked yet"), since: options.now()}
}

// run fetches the keys until ctx ends.
func (i *issuer) run(ctx context.Context) {
	for {
		pause := keysEvery
		if err := i.refresh(ctx); err != nil {
			pause = keysRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// metadata returns the keys and algorithms of the provider. If they are older than keysValid, it returns errNoProvider.
func (i *issuer) metadata() (*metadata, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.known == nil || i.options.now().Sub(i.fetched) > keysValid {
		return nil, errNoProvider
	}
	return i.known, nil
}

// keys returns the keys that may have signed a token. If the key is unknown, it fetches the keys again, at most once in
// keysPause.
func (i *issuer) keys(ctx context.Context, id, algorithm string) ([]crypto.PublicKey, error) {
	for range 2 {
		m, err := i.metadata()
		if err != nil {
			return nil, err
		}
		if keys := find(m.set, id, algorithm); len(keys) > 0 {
			return keys, nil
		}
		if len(find(m.short, id, algorithm)) > 0 {
			return nil, refuse(ReasonSignature, "the token is signed with an RSA key of fewer than %d bits; its provider needs a longer one", minRSABits)
		}
		if !i.due() {
			break
		}
		_ = i.refresh(ctx) // sets failed, which is checked after the loop
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.failed != nil {
		return nil, errNoProvider // the key may be newer than the known keys
	}
	return nil, refuse(ReasonUnknown, "the token is signed with an unknown key")
}

// due reports whether a fetch for an unknown key may begin, or already runs.
func (i *issuer) due() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetching || i.options.now().Sub(i.asked) >= keysPause
}

// refresh fetches the keys. Concurrent calls share one fetch. The fetch goes on if the request that began it has ended.
func (i *issuer) refresh(ctx context.Context) error {
	fetch := func() (any, error) { return nil, i.fetch(context.WithoutCancel(ctx)) }
	select {
	case <-ctx.Done():
		return ctx.Err()
	case result := <-i.fetches.DoChan("", fetch):
		return result.Err
	}
}

func (i *issuer) fetch(ctx context.Context) error {
	i.mu.Lock()
	i.fetching, i.asked = true, i.options.now()
	i.mu.Unlock()
	m, err := i.options.discover(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fetching = false
	if err != nil {
		if i.failed == nil {
			i.since = i.options.now()
		}
		i.failed = err
		i.log.Warn("the identity provider does not answer", zap.String("issuer", i.options.Issuer), zap.Error(err))
		return err
	}
	if i.failed != nil {
		i.log.Info("ready: identity provider", zap.String("issuer", i.options.Issuer), zap.Int("keys", len(m.set)))
	}
	if i.known == nil || len(i.known.short) != len(m.short) {
		for _, key := range m.short {
			i.log.Warn("an RSA key of the identity provider is too short, and its tokens are refused", zap.String("issuer", i.options.Issuer),
				zap.String("key", key.KeyID), zap.Int("least_bits", minRSABits))
		}
	}
	i.known, i.fetched, i.failed = m, i.asked, nil // not the time now: a key may have been removed during the fetch
	return nil
}

// check returns a notice while the provider does not answer. Unavailable is set in the notice when there are no valid keys.
func (i *issuer) check() error {
	if _, err := i.metadata(); err != nil {
		return &dlq.NoticeError{Notice: "the identity provider does not answer; its tokens cannot be verified", Unavailable: true}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.failed == nil {
		return nil
	}
	return &dlq.NoticeError{Notice: fmt.Sprintf("the identity provider does not answer since %s; its known keys are valid until %s",
		i.since.UTC().Format(time.RFC3339), i.fetched.Add(keysValid).UTC().Format(time.RFC3339))}
}

// metadata has the keys and the algorithms that a provider announces.
type metadata struct {
	algorithms []jose.SignatureAlgorithm
	set        []jose.JSONWebKey
	short      []jose.JSONWebKey // RSA keys with fewer than minRSABits
}

// find returns the keys of a set with this id and algorithm. Without a key id in the token, the id is empty and every key may
// have signed it.
func find(set []jose.JSONWebKey, id, algorithm string) []crypto.PublicKey {
	var keys []crypto.PublicKey
	for _, key := range set {
		if (id == "" || key.KeyID == id) && (key.Algorithm == "" || key.Algorithm == algorithm) {
			keys = append(keys, key.Key)
		}
	}
	return keys
}
