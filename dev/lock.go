package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// errLocked means that another process holds the lock.
var errLocked = errors.New("locked by another process")

// fileLock is a lock between processes. The system releases it when its holder ends,
// for any reason, so it never becomes stale.
type fileLock struct{ file *os.File }

// tryLock takes the lock or returns errLocked, with the holder's process id if the
// holder has already written it.
func tryLock(path string) (*fileLock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		_ = file.Close()
		if pid := lockHolder(path); pid != "" {
			return nil, fmt.Errorf("%w (process %s)", errLocked, pid)
		}
		return nil, errLocked
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	// The id is only for messages, so an error is ignored.
	if file.Truncate(0) == nil {
		_, _ = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return &fileLock{file: file}, nil
}

// lockHolder is the process id of the holder, or empty if the holder has not written it
// yet.
func lockHolder(path string) string {
	text, _ := os.ReadFile(path)
	return strings.TrimSpace(string(text))
}

// waitLock takes the lock, and waits for its holder until ctx ends. It calls waiting
// once if it has to wait.
func waitLock(ctx context.Context, path string, waiting func()) (*fileLock, error) {
	for {
		lock, err := tryLock(path)
		if err == nil || !errors.Is(err, errLocked) {
			return lock, err
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// release releases the lock. The file stays: if it were removed, two processes could
// lock two files of the same name. Closing the file is not enough while a child process
// that is just starting has a copy of it.
func (l *fileLock) release() {
	_ = l.file.Truncate(0)
	_ = syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN)
	_ = l.file.Close()
}
