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

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.uber.org/zap"
)

const (
	// temporalStartTimeout limits the wait for a started server; 0.5 s is usual.
	temporalStartTimeout = time.Minute
	// temporalStopTimeout limits the wait for a stopping server; 1.5 s is usual.
	temporalStopTimeout = 10 * time.Second
)

// tunedTemporal raises the limit of the development server, which by default hands out
// 20 tasks a second from its one shard. It also gives a task queue a single partition,
// so that a poller never waits at a partition without tasks.
var tunedTemporal = []string{
	"history.transferProcessorMaxPollRPS=1000",
	"history.transferProcessorMaxPollHostRPS=10000",
	"matching.numTaskqueueReadPartitions=1",
	"matching.numTaskqueueWritePartitions=1",
}

// sqlitePragmas keeps every commit when processes are killed. When the machine loses power,
// the last commits may be lost, and the database stays consistent. The defaults sync the disk
// several times for each commit, which more than halves the rate of workflows.
var sqlitePragmas = []string{"journal_mode=wal", "synchronous=normal"}

// SearchAttributes are the search attributes of the workflows. StartTemporal creates them, with the type Keyword.
var SearchAttributes = []string{"DlqTopic", "DlqGroup", "DlqActor"}

// TemporalOptions configures a Temporal server. Dir is required; every other field has
// a default.
type TemporalOptions struct {
	// Dir holds the log and, unless InMemory, the database.
	Dir string
	// Binary is the Temporal CLI. If it is empty, the CLI on PATH is used, else the
	// CLI in BinDir, where it is built if it is missing.
	Binary string
	// BinDir defaults to Dir/bin.
	BinDir string
	// Port of the gRPC service; 0 takes a free port.
	Port int
	// UIPort of the Web UI; 0 runs without a Web UI.
	UIPort int
	// PortSetting and UIPortSetting are the settings that the error names when a port
	// is taken.
	PortSetting, UIPortSetting string
	// Namespace defaults to "default".
	Namespace string
	// InMemory discards all state at Stop.
	InMemory bool
	// Tuned raises the limits that slow the development server down.
	Tuned bool
	// Out receives the progress of a start that builds the CLI; may be nil.
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

// StartTemporal starts the Temporal CLI's development server and waits until it serves
// the namespace. It first ends a server that still runs on the same Dir because its
// parent was killed. It returns a *PortInUseError when a port is taken.
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
	// Not CommandContext: ctx limits only the start, not the life of the server.
	cmd := exec.Command(o.Binary, o.arguments()...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Dir = o.Dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "TEMPORAL_") // for clients; the server would read them as flags
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
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), temporalStopTimeout)
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
		for _, pragma := range sqlitePragmas {
			arguments = append(arguments, "--sqlite-pragma", pragma)
		}
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

// waitReady returns nil once the namespace can be described, and an error when the
// server has ended or does not answer in time.
func (t *Temporal) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, temporalStartTimeout)
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
			return createSearchAttributes(ctx, c, t.Namespace)
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

// createSearchAttributes creates the search attributes that are missing. The server's flag for search
// attributes has no effect on a namespace that exists.
func createSearchAttributes(ctx context.Context, c client.Client, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, temporalStartTimeout)
	defer cancel()
	for _, name := range SearchAttributes {
		_, err := c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
			Namespace: namespace, SearchAttributes: map[string]enumspb.IndexedValueType{name: enumspb.INDEXED_VALUE_TYPE_KEYWORD},
		})
		var exists *serviceerror.AlreadyExists
		if err != nil && !errors.As(err, &exists) {
			return fmt.Errorf("create the search attribute %s: %w", name, err)
		}
	}
	return nil
}

// PID is the server's process id.
func (t *Temporal) PID() int { return t.process.pid }

// Done is closed when the server ends, by Stop or otherwise.
func (t *Temporal) Done() <-chan struct{} { return t.process.exited }

// Stop sends SIGTERM to the server and waits for its end. When ctx ends first, or after
// ten seconds, it kills the server, which the database survives.
func (t *Temporal) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, temporalStopTimeout)
	defer cancel()
	err := t.process.stop(ctx)
	_ = os.Remove(t.pidFile)
	t.log.Info("temporal stopped", zap.Error(err))
	return err
}

// silent discards the SDK's log of failed calls while the server starts.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}

var _ sdklog.Logger = silent{}
