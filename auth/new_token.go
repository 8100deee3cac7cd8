package auth

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"go.yaml.in/yaml/v3"

	"dlqmanager/dlq"
)

// tokenPrefix is the beginning of static tokens. Secret scanners can search for it.
const tokenPrefix = "dlqm_"

// NewToken returns a random token.
func NewToken() string {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // rand.Read never fails
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
}

// Entry is the entry of a token in the file.
type Entry struct {
	Name string
	Role dlq.Role
	// Topics are globs; an empty list means all topics.
	Topics []string
	// Expires is zero for a token that does not expire.
	Expires time.Time
}

// Marshal returns the YAML of the entry, without the token itself.
func (e Entry) Marshal(token string) ([]byte, error) {
	hash := sha256.Sum256([]byte(token))
	form := struct {
		Name    string   `yaml:"name"`
		Hash    string   `yaml:"hash"`
		Role    dlq.Role `yaml:"role"`
		Topics  []string `yaml:"topics,omitempty,flow"`
		Expires string   `yaml:"expires,omitempty"`
	}{Name: e.Name, Hash: hashPrefix + hex.EncodeToString(hash[:]), Role: e.Role, Topics: e.Topics}
	if !e.Expires.IsZero() {
		form.Expires = e.Expires.UTC().Format(time.RFC3339)
	}
	data, err := yaml.Marshal([]any{form})
	if err != nil {
		return nil, err
	}
	_, err = parseTokens(data) // refuses an entry that the API would refuse
	return data, err
}

// Append appends an entry to a file of tokens. If there is no file, it creates the file with mode 0600. It refuses an entry if
// the file already has its name.
func Append(path string, entry []byte) error {
	data, err := readTokensFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(bytes.TrimSpace(data)) > 0 {
		if _, err := parseTokens(data); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if string(bytes.TrimSpace(data)) == "[]" { // in YAML, an entry cannot follow []
		return os.WriteFile(path, entry, 0o600)
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		entry = append([]byte("\n"), entry...)
	}
	if _, err := parseTokens(append(bytes.Clone(data), entry...)); err != nil {
		return fmt.Errorf("%s with the new entry: %w", path, err)
	}
	// A single write appends the entry, so the API reads the old or the new content. A rename would replace the mount and the
	// owner of the file.
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(entry)
	return errors.Join(err, file.Close())
}
