package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.uber.org/zap"
)

const (
	// temporalReady bounds the wait for a started server; 0.5 s is usual.
	temporalReady = time.Minute
	// temporalStop bounds the wait for a stopping server; 1.5 s is usual.
	temporalStop = 10 * time.Second
)

// tunedTemporal lifts the pace of the development server, which takes 20 tasks
// a second from its one shard unless told otherwise, and keeps a task queue in
// one piece, so that a poller never waits beside the partition with the task.
var tunedTemporal = []string{
	"history.transferProcessorMaxPollRPS=1000",
	"history.transferProcessorMaxPollHostRPS=10000",
	"matching.numTaskqueueReadPartitions=1",
	"matching.numTaskqueueWritePartitions=1",
}

// TemporalOptions say how to run a Temporal server. The zero value of all but
// Dir is useful.
type TemporalOptions struct {
	// Dir holds the log and, unless InMemory, the database. Required.
	Dir string
	// Binary is the Temporal CLI. Empty: the one on PATH, else the one in
	// BinDir, which is built there when it is missing.
	Binary string
	// BinDir defaults to Dir/bin.
	BinDir string
	// Port of the gRPC service; 0 takes a free one.
	Port int
	// UIPort of the Web UI; 0 runs without one.
	UIPort int
	// PortSetting and UIPortSetting are named in the error when a port is taken.
	PortSetting, UIPortSetting string
	// Namespace defaults to "default".
	Namespace string
	// InMemory keeps no state beyond Stop.
	InMemory bool
	// Tuned lifts the limits that make the development server slow on purpose.
	Tuned bool
	// Out gets a line when the start takes long enough to worry; may be nil.
	Out io.Writer
	// Log may be nil.
	Log *zap.Logger
}

// Temporal is a running server.
type Temporal struct {
	// Address is host:port of the gRPC service.
	Address string
	// UIURL is empty without a Web UI.
	UIURL     string
	Namespace string

	process *process
	pidFile string
	log     *zap.Logger
}

// StartTemporal starts the Temporal CLI's development server and waits until it
// serves the namespace. A server that a killed predecessor left on the same
// Dir is ended first. It returns a *PortInUseError when a port is taken.
func StartTemporal(ctx context.Context, o TemporalOptions) (*Temporal, error) {
	if o.Dir == "" {
		return nil, errors.New("no folder for Temporal's state")
	}
	var err error
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, err
	}
	if o.BinDir == "" {
		o.BinDir = filepath.Join(o.Dir, "bin")
	}
	if o.Namespace == "" {
		o.Namespace = client.DefaultNamespace
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Binary, err = temporalBinary(ctx, o.Binary, o.BinDir, o.Out); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := endLeftover(ctx, o.pidFile(), o.database()); err != nil {
		return nil, fmt.Errorf("Temporal of an earlier run: %w", err)
	}
	if err := checkPort("Temporal", o.Port, o.PortSetting); err != nil {
		return nil, err
	}
	if err := checkPort("Temporal's Web UI", o.UIPort, o.UIPortSetting); err != nil {
		return nil, err
	}
	if o.Port == 0 {
		if o.Port, err = freePort(); err != nil {
			return nil, err
		}
	}
	return o.launch(ctx)
}

// launch runs the server and waits until it serves.
func (o TemporalOptions) launch(ctx context.Context) (*Temporal, error) {
	logPath := filepath.Join(o.Dir, "temporal.log")
	output, err := openLog(logPath)
	if err != nil {
		return nil, err
	}
	defer output.Close() // the child has its own descriptor
	// Not CommandContext: ctx bounds the start, not the life of the server.
	cmd := exec.Command(o.Binary, o.arguments()...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Dir = o.Dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "TEMPORAL_") // these are for clients, and would set flags here
	})
	onDeath := syscall.SIGTERM // so that it closes its database
	if o.InMemory {
		onDeath = syscall.SIGKILL
	}
	p, err := startProcess(cmd, onDeath)
	if err != nil {
		return nil, fmt.Errorf("start Temporal: %w", err)
	}
	t := &Temporal{Address: address(o.Port), Namespace: o.Namespace, process: p, pidFile: o.pidFile(), log: o.Log}
	if o.UIPort != 0 {
		t.UIURL = "http://" + address(o.UIPort)
	}
	err = writePID(t.pidFile, p.pid)
	if err == nil {
		err = t.waitReady(ctx)
	}
	if err != nil {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), temporalStop)
		defer cancel()
		_ = t.Stop(stopping)
		return nil, fmt.Errorf("Temporal did not start: %w; the end of %s:\n%s", err, logPath, tail(logPath, 10))
	}
	o.Log.Info("temporal started", zap.String("address", t.Address), zap.Int("pid", p.pid), zap.String("binary", o.Binary))
	return t, nil
}

func (o TemporalOptions) arguments() []string {
	arguments := []string{"server", "start-dev", "--ip", loopback, "--port", strconv.Itoa(o.Port)}
	if o.UIPort == 0 {
		arguments = append(arguments, "--headless")
	} else {
		arguments = append(arguments, "--ui-port", strconv.Itoa(o.UIPort))
	}
	if !o.InMemory {
		arguments = append(arguments, "--db-filename", o.database())
	}
	if o.Namespace != client.DefaultNamespace {
		arguments = append(arguments, "--namespace", o.Namespace)
	}
	if o.Tuned {
		for _, value := range tunedTemporal {
			arguments = append(arguments, "--dynamic-config-value", value)
		}
	}
	return arguments
}

func (o TemporalOptions) database() string { return filepath.Join(o.Dir, "temporal.db") }
func (o TemporalOptions) pidFile() string  { return filepath.Join(o.Dir, "temporal.pid") }

// waitReady returns once the namespace can be described, or with the reason why
// it never will.
func (t *Temporal) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, temporalReady)
	defer cancel()
	c, err := client.NewLazyClient(client.Options{HostPort: t.Address, Namespace: t.Namespace, Logger: silent{}})
	if err != nil {
		return err
	}
	defer c.Close()
	request := &workflowservice.DescribeNamespaceRequest{Namespace: t.Namespace}
	for {
		attempt, cancelAttempt := context.WithTimeout(ctx, time.Second)
		_, err := c.WorkflowService().DescribeNamespace(attempt, request)
		cancelAttempt()
		if err == nil {
			return nil
		}
		select {
		case <-t.process.exited:
			if t.process.err == nil {
				return errors.New("it ended at once, without an error")
			}
			return fmt.Errorf("it ended at once: %w", t.process.err)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// PID is the server's process id.
func (t *Temporal) PID() int { return t.process.pid }

// Done is closed when the server ends, whoever ended it.
func (t *Temporal) Done() <-chan struct{} { return t.process.exited }

// Stop asks the server to end and waits for it. When ctx ends first, or after
// ten seconds, the server is killed, which its database survives.
func (t *Temporal) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, temporalStop)
	defer cancel()
	err := t.process.stop(ctx)
	_ = os.Remove(t.pidFile)
	t.log.Info("temporal stopped", zap.Error(err))
	return err
}

// silent keeps the SDK from logging the failed calls of a server that starts.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}

var _ sdklog.Logger = silent{}
