package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// child is a process that ends with the test program.
type child struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// startChild starts a child, and keeps the thread that has started it until the
// child ends: on Linux the child gets the signal Pdeathsig when this thread ends.
func startChild(cmd *exec.Cmd) (*child, error) {
	cmd.SysProcAttr = diesWithUs()
	c := &child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the process state has the result
			close(c.done)
		}
	}()
	return c, <-started
}

// alive reports whether the process is running.
func (c *child) alive() bool {
	if c == nil {
		return false
	}
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

func (c *child) signal(signal syscall.Signal) {
	if c.alive() {
		_ = c.cmd.Process.Signal(signal)
	}
}

// end sends the signal and waits. If the process does not end in time, it is killed and end
// returns false.
func (c *child) end(signal syscall.Signal, limit time.Duration) bool {
	if !c.alive() {
		return true
	}
	_ = c.cmd.Process.Signal(signal)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.done:
		return true
	case <-timer.C:
		_ = c.cmd.Process.Kill()
		<-c.done
		return false
	}
}

// chaosProgram is a worker or the API, at an address that stays the same.
type chaosProgram struct {
	c            *chaos
	name, binary string
	address      string
	env          []string
	process      *child
	wanted       atomic.Bool // the program should be running
	lastUp       atomic.Int64
	lastDown     atomic.Int64
	logPath      string
	// ways are the proxies to "postgres", "broker" and "temporal".
	ways map[string]*proxy
}

func (c *chaos) newProgram(name, binary, portVariable string) *chaosProgram {
	address := freeAddress(c.t)
	p := &chaosProgram{c: c, name: name, binary: binary, address: address, logPath: filepath.Join(c.dir, name+".log"), ways: c.waysTo()}
	p.env = append(c.environment(p.ways), portVariable+"="+port(address))
	c.t.Cleanup(func() {
		p.wanted.Store(false)
		p.process.end(syscall.SIGKILL, time.Minute)
	})
	return p
}

// start does not wait for readiness, because a dependency may be unavailable.
func (p *chaosProgram) start() {
	p.c.journal.note("start %s", p.name)
	log, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		p.c.journal.violate("%s: %v", p.name, err)
		return
	}
	defer log.Close() // the child has its own descriptor
	_, _ = fmt.Fprintf(log, "--- started at %s\n", time.Now().Format(time.RFC3339Nano))
	cmd := exec.Command(filepath.Join(programs, p.binary))
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env, log, log
	process, err := startChild(cmd)
	if err != nil {
		p.c.journal.violate("%s does not start: %v", p.name, err)
		return
	}
	p.process = process
	p.lastUp.Store(time.Now().UnixNano())
	p.wanted.Store(true)
	go func() {
		<-process.done
		p.lastDown.Store(time.Now().UnixNano())
		if p.wanted.Load() {
			p.c.journal.violate("%s ended by itself: %s", p.name, process.cmd.ProcessState)
		}
	}()
}

func (p *chaosProgram) kill() {
	p.c.journal.note("SIGKILL %s", p.name)
	p.wanted.Store(false)
	p.process.end(syscall.SIGKILL, time.Minute)
}

// terminate asks the program to stop. The program must stop within a minute.
func (p *chaosProgram) terminate() {
	p.c.journal.note("SIGTERM %s", p.name)
	p.wanted.Store(false)
	started := time.Now()
	if !p.process.end(syscall.SIGTERM, time.Minute) {
		p.c.journal.violate("%s did not stop within a minute of SIGTERM", p.name)
		return
	}
	p.c.journal.note("%s stopped after %s with code %d", p.name, time.Since(started).Round(time.Millisecond),
		p.process.cmd.ProcessState.ExitCode())
}

// wasDown reports whether the program was down or starting at any time since the given time.
func (p *chaosProgram) wasDown(since time.Time) bool {
	const starting = 5 * time.Second // until it listens
	return !p.wanted.Load() || p.lastDown.Load() >= since.UnixNano() || p.lastUp.Load() >= since.Add(-starting).UnixNano()
}

var readyClient = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func (p *chaosProgram) ready() bool {
	response, err := readyClient.Get("http://" + p.address + "/readyz")
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}
