package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// readPrivate reads a file. It refuses a file that other users may read or change.
func readPrivate(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder", path)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("others may read or change this file, which may hold tokens: run chmod 600 %s", path)
	}
	return readAll(os.Open(path))
}

// open opens a file, or the standard input for "-".
func (s *session) open(path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(s.Stdin), nil
	}
	return os.Open(path)
}

// maxFile limits a file or the standard input, in bytes. The server accepts no larger message.
const maxFile = 64 << 20

// readAll reads an open file, and closes it. It passes on an error of the opening.
func readAll(file io.ReadCloser, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("it has more than %d MiB", maxFile>>20)
	}
	return content, err
}

// writePrivate replaces a file by a rename, so that after a crash the old file is still complete. Other users may not read the
// file.
func writePrivate(path string, content []byte) error {
	if followed, err := filepath.EvalSymlinks(path); err == nil {
		path = followed // a symbolic link stays a link
	}
	next, err := os.CreateTemp(filepath.Dir(path), ".next-*") // its mode is 0600
	if err != nil {
		return err
	}
	_, err = next.Write(content)
	err = errors.Join(err, next.Sync(), next.Close())
	if err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next.Name()))
	}
	return nil
}

// lockFile waits for a lock that excludes other processes until unlock is called. The lock ends when its process ends.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		locked, err := tryLock(file)
		if locked {
			return func() { _ = file.Close() }, nil
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			_ = file.Close()
			return nil, context.Cause(ctx)
		}
	}
}
