package console

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// KeyFile reads the keys of the cookies from a file: 32 bytes in base64 on each line, the newest first. Keys reads the file
// again, at most once a second. A KeyFile is safe for concurrent use.
type KeyFile struct {
	path   string
	logger *zap.Logger
	now    func() time.Time

	mutex  sync.Mutex
	read   time.Time // when the file was read
	keys   []Key
	failed string // the last error that was logged
}

// NewKeyFile reads the keys for the first time.
func NewKeyFile(path string, logger *zap.Logger) (*KeyFile, error) {
	keys, err := readKeys(path)
	if err != nil {
		return nil, err
	}
	return &KeyFile{path: path, logger: logger, now: time.Now, read: time.Now(), keys: keys}, nil
}

// Keys returns the keys in the file. If the file cannot be read, Keys returns the last keys that were read.
func (f *KeyFile) Keys() []Key {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	now := f.now()
	if now.Sub(f.read) < time.Second {
		return f.keys
	}
	f.read = now
	switch keys, err := readKeys(f.path); {
	case err == nil:
		f.keys, f.failed = keys, ""
	case err.Error() != f.failed: // logs each error once, since requests come every second
		f.failed = err.Error()
		f.logger.Error("the keys of the console are used as they were", zap.Error(err))
	}
	return f.keys
}

func readKeys(path string) ([]Key, error) {
	// Opening a pipe would wait for a writer.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	keys, err := parseKeys(string(content))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return keys, nil
}

// parseKeys reads a key from each line that is not empty. Its errors quote no line, which may have a part of a key.
func parseKeys(text string) ([]Key, error) {
	var keys []Key
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		content, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(content) != len(Key{}) {
			return nil, fmt.Errorf("line %d is no key: a key is 32 bytes in base64, as `openssl rand -base64 32` prints", i+1)
		}
		keys = append(keys, Key(content))
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key: `openssl rand -base64 32` prints one")
	}
	return keys, nil
}
