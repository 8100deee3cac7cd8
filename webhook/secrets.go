package webhook

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"
)

const (
	// maxSecretsSize limits a file of secrets, in bytes.
	maxSecretsSize = 64 << 10
	// maxBefore limits the replaced secrets that are remembered.
	maxBefore = 4 * maxSigningSecrets
	// secretPrefix marks a secret that is in base64, as in Standard Webhooks.
	secretPrefix = "whsec_"
)

// secretFile has secrets, one in each line. The file is read for each request. If it cannot be read, the secrets stay as they
// were. Without a path there are no secrets.
type secretFile struct {
	path  string
	check func(secrets []string) error
	log   *zap.Logger

	mu      sync.Mutex
	secrets []string
	before  []string // earlier secrets of the file, the newest first
	failed  bool
}

func newSecretFile(path string, check func([]string) error, log *zap.Logger) (*secretFile, error) {
	f := &secretFile{path: path, check: check, log: log}
	return f, f.reload()
}

// current returns the current secrets, the newest first.
func (f *secretFile) current() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read()
}

// known returns the current secrets, and earlier secrets, which an answer may still quote.
func (f *secretFile) known() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Concat(f.read(), f.before)
}

func (f *secretFile) read() []string {
	err := f.reload()
	if err != nil && !f.failed {
		f.log.Error("cannot read the secrets of an endpoint again; using the earlier ones", zap.String("file", f.path), zap.Error(err))
	}
	f.failed = err != nil
	return f.secrets
}

func (f *secretFile) reload() error {
	if f.path == "" {
		return nil
	}
	// To open a pipe would mean to wait for a writer.
	if info, err := os.Stat(f.path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", f.path)
	}
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxSecretsSize+1))
	if err != nil {
		return err
	}
	if len(data) > maxSecretsSize {
		return fmt.Errorf("%s is larger than %d bytes", f.path, maxSecretsSize)
	}
	var secrets []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" {
			secrets = append(secrets, line)
		}
	}
	if len(secrets) == 0 {
		return fmt.Errorf("%s is empty", f.path)
	}
	if err := f.check(secrets); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	if !slices.Equal(secrets, f.secrets) {
		f.before = slices.Concat(f.secrets, f.before)
		f.before = f.before[:min(len(f.before), maxBefore)]
		f.secrets = secrets
	}
	return nil
}

// checkToken refuses a token that cannot be in a header.
func checkToken(tokens []string) error {
	if len(tokens) != 1 || !isPlain(tokens[0]) {
		return errors.New("must have one token, of printable ASCII")
	}
	return nil
}

// maxSigningSecrets limits the signatures of a request.
const maxSigningSecrets = 8

func checkSigning(secrets []string) error {
	if len(secrets) > maxSigningSecrets {
		return fmt.Errorf("has more than %d secrets", maxSigningSecrets)
	}
	for i, secret := range secrets {
		if _, err := signingKey(secret); err != nil {
			return fmt.Errorf("line %d has %s but no base64 behind it", i+1, secretPrefix)
		}
	}
	return nil
}

// signingKey is the key of a secret. If the secret has the prefix, the key is the decoded base64 after the prefix. Otherwise
// the key is the bytes of the secret.
func signingKey(secret string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(secret, secretPrefix)
	if !ok {
		return []byte(secret), nil
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err == nil && len(key) == 0 {
		err = errors.New("empty")
	}
	return key, err
}
