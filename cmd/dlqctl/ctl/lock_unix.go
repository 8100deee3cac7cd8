//go:build unix

package ctl

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks a file until the file is closed. It returns false if another process has locked it.
func tryLock(file *os.File) (bool, error) {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return err == nil, err
}
