package ctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"time"

	"github.com/zalando/go-keyring"

	"dlqmanager/client"
)

const (
	ringService = "dlqctl"
	// ringTimeout limits a call of the key ring. A locked key ring may wait for a person who does not see its question.
	ringTimeout = 15 * time.Second
)

// tokenStore keeps the tokens of a context in the key ring of the system, or in a file beside the file of the contexts.
type tokenStore struct {
	path   string // the file of the tokens, or the name of their entry in the key ring
	inFile bool
}

func (s *session) tokenStore(name string, o openID) *tokenStore {
	return &tokenStore{path: absolute(s.contextsPath()) + "." + url.PathEscape(name) + ".tokens", inFile: o.InFile}
}

// probe returns why the key ring cannot be used, or nil.
func (k *tokenStore) probe() error {
	return limited(func() error {
		_, err := keyring.Get(ringService, k.path)
		if errors.Is(err, keyring.ErrNotFound) {
			err = keyring.Set(ringService, k.path, "{}")
		}
		return err
	})
}

// Load reads the tokens.
func (k *tokenStore) Load() (tokens client.Tokens, err error) {
	var content []byte
	if k.inFile {
		content, err = readPrivate(k.path)
	} else {
		err = limited(func() error {
			text, err := keyring.Get(ringService, k.path)
			content = []byte(text)
			return err
		})
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, keyring.ErrNotFound):
		return client.Tokens{}, nil
	case err != nil:
		return client.Tokens{}, fmt.Errorf("read the tokens of the sign-in: %w", err)
	case json.Unmarshal(content, &tokens) != nil: // the error of package json may quote a token
		return client.Tokens{}, errors.New("the tokens of the sign-in are damaged: run dlqctl login")
	}
	return tokens, nil
}

// Save replaces the tokens. If the key ring has no room for both tokens, Save keeps only the refresh token.
func (k *tokenStore) Save(tokens client.Tokens) error {
	content, err := json.Marshal(tokens) //nolint:gosec // to keep them is what this is for
	if err != nil {
		return err
	}
	isEmpty := tokens == client.Tokens{}
	switch {
	case k.inFile && isEmpty:
		err = os.Remove(k.path)
	case k.inFile:
		err = writePrivate(k.path, content)
	case isEmpty:
		err = limited(func() error { return keyring.Delete(ringService, k.path) })
	default:
		err = limited(func() error { return keyring.Set(ringService, k.path, string(content)) })
		if errors.Is(err, keyring.ErrSetDataTooBig) && tokens.Access != "" && tokens.Refresh != "" {
			tokens.Access = ""
			return k.Save(tokens)
		}
	}
	if err == nil || isEmpty && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, keyring.ErrNotFound)) {
		return nil
	}
	return fmt.Errorf("keep the tokens of the sign-in: %w; dlqctl login --in-file keeps them in a file", err)
}

// Lock keeps other processes from refreshing the tokens.
func (k *tokenStore) Lock(ctx context.Context) (func(), error) { return lockFile(ctx, k.path+".lock") }

// limited calls the key ring, and returns an error if it does not answer in time.
func limited(call func() error) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), ringTimeout, errors.New("the key ring does not answer; it may be locked"))
	defer cancel()
	return await(ctx, call)
}
