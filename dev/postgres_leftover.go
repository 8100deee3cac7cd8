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

// stopLeftoverPostgres stops a server that still runs on this data folder after its
// parent was killed, and removes a stale pid file. The caller holds the folder's lock,
// so no running program owns that server.
//
// The pid is not enough, since the system reuses pids: the process must also have the
// folder as an argument.
func stopLeftoverPostgres(ctx context.Context, data string) error {
	file := filepath.Join(data, "postmaster.pid")
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err == nil && pid > 1 && runsWith(pid, data) {
		for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL} {
			if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("process %d, left over from an earlier run, cannot be stopped: %w", pid, err)
			}
			if waitEnded(ctx, pid, data, 10*time.Second) {
				break
			}
		}
		if runsWith(pid, data) {
			return fmt.Errorf("process %d, left over from an earlier run, does not end; end it by hand", pid)
		}
	}
	// A server that has stopped has already removed the file.
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// RemovePostgres deletes a folder of StartPostgres. It first stops a server that still
// runs there after its parent was killed. It returns an error if a running program uses
// the folder.
func RemovePostgres(ctx context.Context, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	lock, err := tryLock(filepath.Join(dir, "lock"))
	if err != nil {
		return fmt.Errorf("PostgreSQL: %s is in use by another program: %w", dir, err)
	}
	defer lock.release()
	if err := stopLeftoverPostgres(ctx, filepath.Join(dir, "data")); err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	return os.RemoveAll(dir)
}
