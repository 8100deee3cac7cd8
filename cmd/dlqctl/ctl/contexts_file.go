package ctl

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"
)

// contextsFile is the file of the contexts. Only its owner may read it, since it may contain tokens.
type contextsFile struct {
	Current  string            `yaml:"current,omitempty"`
	Contexts map[string]target `yaml:"contexts,omitempty"`
}

// target is the content of a context: a server, and the way to sign in to it.
type target struct {
	Server string `yaml:"server"`
	// At most one of Token, TokenFile, TokenCommand and OpenID is set. None is set for a server without authentication.
	Token        string   `yaml:"token,omitempty"`
	TokenFile    string   `yaml:"token_file,omitempty"`
	TokenCommand []string `yaml:"token_command,omitempty,flow"`
	OpenID       *openID  `yaml:"openid,omitempty"`
	// CAFile has certificates to trust. For the API they replace the system's certificates. For the identity provider they are
	// trusted in addition.
	CAFile string `yaml:"ca_file,omitempty"`
	// Production makes dlqctl ask for the name of the topic before every change.
	Production bool `yaml:"production,omitempty"`
}

// contextsPath is the path of the file of the contexts. It is empty if there is no folder for the file, as in a container
// without HOME.
func (s *session) contextsPath() string {
	if path := cmp.Or(s.flags.config, s.Getenv("DLQCTL_CONFIG")); path != "" {
		return path
	}
	folder, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(folder, "dlqctl", "config.yaml")
}

// readContexts reads the file of the contexts. Without the file there are no contexts.
func (s *session) readContexts() (*contextsFile, error) {
	path := s.contextsPath()
	file := &contextsFile{Contexts: map[string]target{}}
	if path == "" {
		return file, nil
	}
	content, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the file of the contexts: %w", err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	if err := decoder.Decode(file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the file of the contexts, %s: %w", path, err)
	}
	if file.Contexts == nil {
		file.Contexts = map[string]target{}
	}
	return file, nil
}

// changeContexts changes the file of the contexts. A lock excludes other processes, so that no change of the file is lost.
func (s *session) changeContexts(ctx context.Context, change func(*contextsFile) error) error {
	path := s.contextsPath()
	if path == "" {
		return errors.New("there is no folder for the contexts: set HOME, or DLQCTL_CONFIG to a file")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	unlock, err := lockFile(ctx, path+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	file, err := s.readContexts()
	if err != nil {
		return err
	}
	if err := change(file); err != nil {
		return err
	}
	content, err := yaml.Marshal(file)
	if err != nil {
		return err
	}
	return writePrivate(path, content)
}

func (s *session) contextNames() []string {
	file, err := s.readContexts()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(file.Contexts))
}

// named returns a context by its name.
func (f *contextsFile) named(name string) (target, error) {
	found, ok := f.Contexts[name]
	if !ok {
		return target{}, fmt.Errorf("there is no context %q; dlqctl contexts list shows them", name)
	}
	return found, nil
}
