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

// fileLock is a lock between processes. The system frees it when its holder
// ends, however that ends, so it can never be left behind.
type fileLock struct{ file *os.File }

// tryLock takes the lock or returns errLocked, with the holder's process id
// where the holder has had the time to write it.
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
	// The id is for people only, so failing to write it is no reason to stop.
	if file.Truncate(0) == nil {
		_, _ = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return &fileLock{file: file}, nil
}

// lockHolder is the process id of who holds the lock, or empty where it has not
// had the time to write it.
func lockHolder(path string) string {
	text, _ := os.ReadFile(path)
	return strings.TrimSpace(string(text))
}

// waitLock takes the lock, waiting for its holder until ctx ends. It calls
// waiting once when there is a holder.
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

// release frees the lock. The file stays: removing it would let two processes
// lock two files of one name. Closing it alone would not do while a program that
// is just being started still has a copy of it.
func (l *fileLock) release() {
	_ = l.file.Truncate(0)
	_ = syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN)
	_ = l.file.Close()
}
