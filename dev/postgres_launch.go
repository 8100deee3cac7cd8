package dev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// launch has the constant parameters of all attempts to start a server.
type launch struct {
	bin, data string
	who       identity
	log       io.Writer
}

// launch starts the server and waits until it is ready. It retries if another program
// took the free port first, or if processes of a killed server are still ending.
func (p *Postgres) launch(ctx context.Context, o PostgresOptions, l launch) error {
	for attempt := 1; ; attempt++ {
		p.Port = o.Port
		if p.Port == 0 {
			var err error
			if p.Port, err = freePort(); err != nil {
				return err
			}
		}
		lastLog := &lastBytes{limit: 4096}
		var err error
		p.server, err = startPostgresProcess(l.command(p.Port, o.Settings, io.MultiWriter(l.log, lastLog)), l.who)
		if err != nil {
			return err
		}
		if err = p.waitReady(ctx); err == nil {
			return nil
		}
		_ = p.server.stop(ctx)
		text := lastLog.String()
		transient := strings.Contains(text, "Address already in use") && o.Port == 0 ||
			strings.Contains(text, "pre-existing shared memory block")
		if !transient || attempt == 20 || ctx.Err() != nil {
			return fmt.Errorf("%w; the end of its log:\n%s", err, strings.TrimSpace(text))
		}
		select {
		case <-ctx.Done():
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// command listens only on loopback. Unix sockets are off: they are not needed, and in
// some folders their path would be too long.
func (l launch) command(port int, settings map[string]string, log io.Writer) *exec.Cmd {
	args := []string{"-D", l.data, "-p", strconv.Itoa(port),
		"-c", "listen_addresses=" + loopback, "-c", "unix_socket_directories=", "-c", "logging_collector=off"}
	for name, value := range settings {
		args = append(args, "-c", name+"="+value)
	}
	cmd := exec.Command(filepath.Join(l.bin, "postgres"), args...)
	cmd.Dir, cmd.Env = filepath.Dir(l.data), postgresEnv()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.WaitDelay = 5 * time.Second // a backend that ends late keeps the log's pipe open
	return cmd
}

// initDatabase creates the data folder unless it exists. initdb fills a folder of another
// name, which is then renamed, so that a killed initdb leaves no incomplete data folder.
func initDatabase(ctx context.Context, bin, data string, who identity) error {
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); err == nil {
		return nil
	}
	fresh := data + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	// The C locale sorts equally on every machine.
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", fresh, "-U", postgresUser,
		"-A", "trust", "-E", "UTF8", "--locale=C", "--no-instructions")
	cmd.Dir, cmd.Env = filepath.Dir(data), postgresEnv()
	cmd.SysProcAttr = processAttributes(syscall.SIGKILL)
	who.apply(cmd.SysProcAttr)
	// Linux sends the death signal when the starting thread ends, so the thread must
	// live until initdb ends.
	runtime.LockOSThread()
	output, err := cmd.CombinedOutput()
	runtime.UnlockOSThread()
	if err != nil {
		return fmt.Errorf("initdb in %s: %w\n%s", fresh, err, bytes.TrimSpace(output))
	}
	return os.Rename(fresh, data)
}

// postgresEnv is our environment without PGDATA, PGPORT and similar variables, which
// would configure the programs.
func postgresEnv() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "PG") || strings.HasPrefix(v, "LC_") || strings.HasPrefix(v, "LANG")
	})
	return append(env, "LC_ALL=C")
}

// postgresProcess is the server's main process.
type postgresProcess struct {
	pid    int
	exited chan struct{}
}

// startPostgresProcess keeps the starting thread until the child ends, because on Linux
// the child gets its death signal when that thread ends.
func startPostgresProcess(cmd *exec.Cmd, who identity) (*postgresProcess, error) {
	cmd.SysProcAttr = processAttributes(syscall.SIGINT)
	who.apply(cmd.SysProcAttr)
	p := &postgresProcess{exited: make(chan struct{})}
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
		_ = cmd.Wait()
		close(p.exited)
	}()
	return p, <-started
}

// stop requests a fast shutdown, and an immediate shutdown when ctx ends first. Five seconds
// later it kills the server, which must not outlive this call.
func (p *postgresProcess) stop(ctx context.Context) error {
	select {
	case <-p.exited:
		return nil
	default:
	}
	_ = syscall.Kill(p.pid, syscall.SIGINT)
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
	}
	_ = syscall.Kill(p.pid, syscall.SIGQUIT)
	select {
	case <-p.exited:
	case <-time.After(5 * time.Second):
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
		<-p.exited
	}
	return errors.New("the server did not stop in time and was ended at once; the next start replays its WAL")
}

// lastBytes keeps the last bytes that were written to it.
type lastBytes struct {
	mu    sync.Mutex
	limit int
	bytes []byte
}

func (l *lastBytes) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes = append(l.bytes, b...)
	if over := len(l.bytes) - l.limit; over > 0 {
		l.bytes = slices.Delete(l.bytes, 0, over)
	}
	return len(b), nil
}

func (l *lastBytes) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.bytes)
}
