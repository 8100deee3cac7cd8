package console

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// Key encrypts cookies with AES-256-GCM.
type Key [32]byte

// NewKey makes a random key. Sessions end with the process that has it.
func NewKey() Key {
	var key Key
	_, _ = rand.Read(key[:]) // never fails
	return key
}

// sealer encrypts and signs values of cookies. A value can only be opened under the name that it was sealed for.
type sealer struct{ ciphers []cipher.AEAD }

func newSealer(keys []Key) (*sealer, error) {
	if len(keys) == 0 {
		keys = []Key{NewKey()}
	}
	s := &sealer{}
	for _, key := range keys {
		block, err := aes.NewCipher(key[:])
		if err != nil {
			return nil, fmt.Errorf("a key of the console: %w", err)
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, fmt.Errorf("a key of the console: %w", err)
		}
		s.ciphers = append(s.ciphers, aead)
	}
	return s, nil
}

func (s *sealer) seal(name string, value any) (string, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(s.ciphers[0].Seal(nil, nil, content, []byte(name))), nil
}

var errSealed = errors.New("the cookie was not written with a key of this server")

func (s *sealer) open(name, sealed string, value any) error {
	content, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return errSealed
	}
	for _, aead := range s.ciphers {
		if plain, err := aead.Open(nil, nil, content, []byte(name)); err == nil {
			return json.Unmarshal(plain, value)
		}
	}
	return errSealed
}
