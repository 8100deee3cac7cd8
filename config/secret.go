package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

const redacted = "[redacted]"

// maxSecretSize limits a secret file, in bytes.
const maxSecretSize = 64 << 10

// Secret is text that must not appear in logs, errors or dumps. Every printed or encoded form is "[redacted]", or empty if the
// text is empty. fmt cannot call the methods of a Secret in an unexported field, but then it prints the pointer and not the
// text.
type Secret struct{ text *string }

// NewSecret returns a Secret with this text.
func NewSecret(text string) Secret { return Secret{text: &text} }

// Reveal returns the text itself.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero reports whether there is no secret. YAML's omitempty calls IsZero too.
func (s Secret) IsZero() bool { return s.Reveal() == "" }

// String hides the text.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return redacted
}

// GoString hides the text from %#v.
func (s Secret) GoString() string { return s.String() }

// Format hides the text from every verb of fmt, including invalid verbs such as %d.
func (s Secret) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, s.String()) }

// MarshalText hides the text from encoders: JSON, YAML, slog and map keys.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the secret from a file or a variable.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}

// readSecretFile returns the content of a file without the last line break, which most editors and secret stores add.
func readSecretFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxSecretSize+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxSecretSize {
		return "", fmt.Errorf("%s is larger than %d bytes: not a secret", path, maxSecretSize)
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if text == "" {
		return "", &os.PathError{Op: "read", Path: path, Err: errors.New("the file is empty")}
	}
	return text, nil
}

// secretFrom returns the content of the file when a file is named, and the text otherwise. The error names the key of the file.
func secretFrom(text Secret, key, file string) (string, error) {
	if file == "" {
		return text.Reveal(), nil
	}
	content, err := readSecretFile(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", key, err)
	}
	return content, nil
}
