package dev

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that is just starting has a copy of each open file for a moment.
func TestAReleasedLockIsFreeWhileACopyOfTheFileIsOpen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	lock, err := tryLock(path)
	require.NoError(t, err)
	_, err = tryLock(path)
	require.ErrorIs(t, err, errLocked)

	inherited, err := syscall.Dup(int(lock.file.Fd()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(inherited) })
	lock.release()
	again, err := tryLock(path)
	require.NoError(t, err)
	again.release()
}
