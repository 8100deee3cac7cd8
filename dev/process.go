package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a child program. It has its own process group, so that Ctrl-C in the
// terminal reaches only us and the parts stop in order. On Linux it also ends when we
// are killed.
type process struct {
	pid    int
	exited chan struct{}
	// err is the result of Wait; read it only after exited is closed.
	err error
}

// startProcess starts the command. onDeath is the signal that the program gets when we
// end without stopping it.
//
// Linux sends that signal when the starting thread ends, not the process. So one
// goroutine is locked to this thread and stays in Wait until the child ends.
func startProcess(cmd *exec.Cmd, onDeath syscall.Signal) (*process, error) {
	cmd.SysProcAttr = processAttributes(onDeath)
	p := &process{exited: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.pid = cmd.Process.Pid
		started <- nil
		p.err = cmd.Wait()
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// stop sends SIGTERM, and kills the process group if the program has not ended when ctx
// ends.
func (p *process) stop(ctx context.Context) error {
	select {
	case <-p.exited: // the system may have reused its pid
		return nil
	default:
	}
	_ = syscall.Kill(p.pid, syscall.SIGTERM)
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
	}
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	<-p.exited
	return fmt.Errorf("process %d did not end in time and was killed", p.pid)
}

// endLeftover ends a program that still runs after its parent was killed. The pid file
// is not enough, since the system reuses pids: the process must also have marker as an
// argument.
func endLeftover(ctx context.Context, pidFile, marker string) error {
	text, err := os.ReadFile(pidFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err == nil && pid > 1 && runsWith(pid, marker) {
		_ = syscall.Kill(pid, syscall.SIGTERM)
		if !waitEnded(ctx, pid, marker, 10*time.Second) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			if !waitEnded(ctx, pid, marker, 5*time.Second) {
				return fmt.Errorf("process %d, left over from an earlier run, does not end; end it by hand", pid)
			}
		}
	}
	return os.Remove(pidFile)
}

// waitEnded waits until the process has ended. It polls, because only a parent can wait
// for a process. A zombie has no command line, so it counts as ended.
func waitEnded(ctx context.Context, pid int, marker string, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for runsWith(pid, marker) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return true
}

// writePID records the process for endLeftover.
func writePID(path string, pid int) error {
	return os.WriteFile(path, []byte(strconv.Itoa(pid)+"\n"), 0o644)
}

// openLog creates a new log file and renames the previous one to <name>.old, so that
// the reason of a crash survives the next start.
func openLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if err := os.Rename(path, path+".old"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
}

// tail returns the last lines of a log file for an error text.
func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(len(all)-lines, 0):], "\n")
}
