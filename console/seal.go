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

// NewKey makes a random key. If no other process has the key, its sessions end with this process.
func NewKey() Key {
	var key Key
	_, _ = rand.Read(key[:]) // never fails
	return key
}

// sealer encrypts and authenticates values of cookies. A value can only be opened under the name that it was sealed for.
type sealer struct {
	// keys is called for each value. The first key seals, all keys open.
	keys func() []Key
}

func (k Key) cipher() (cipher.AEAD, error) {
	block, err := aes.NewCipher(k[:])
	if err != nil {
		return nil, fmt.Errorf("a key of the console: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("a key of the console: %w", err)
	}
	return aead, nil
}

func (s *sealer) seal(name string, value any) (string, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	aead, err := s.keys()[0].cipher()
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(aead.Seal(nil, nil, content, []byte(name))), nil
}

var errSealed = errors.New("the cookie was not written with a key of this server")

func (s *sealer) open(name, sealed string, value any) error {
	content, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return errSealed
	}
	for _, key := range s.keys() {
		aead, err := key.cipher()
		if err != nil {
			return err
		}
		if plain, err := aead.Open(nil, nil, content, []byte(name)); err == nil {
			return json.Unmarshal(plain, value)
		}
	}
	return errSealed
}
