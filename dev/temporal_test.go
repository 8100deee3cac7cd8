package dev

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
)

// temporalChild makes this test binary the parent of a Temporal server on the folder
// that it names, so that a test can kill the parent.
const temporalChild = "DLQ_DEV_TEST_TEMPORAL_DIR"

func init() {
	dir := os.Getenv(temporalChild)
	if dir == "" {
		return
	}
	port, _ := strconv.Atoi(os.Getenv("DLQ_DEV_TEST_TEMPORAL_PORT"))
	s, err := StartTemporal(context.Background(), TemporalOptions{Dir: dir, Port: port, Binary: os.Getenv("DLQ_DEV_TEST_TEMPORAL_BIN")})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.PID())
	select {}
}

// testTemporal is the CLI of these tests. If there is none, they build it into the
// folder that `make run` uses.
var testTemporal = sync.OnceValues(func() (string, error) {
	given := ""
	if _, err := exec.LookPath("temporal"); err != nil {
		given = os.Getenv("DLQ_TEST_TEMPORAL_BIN")
	}
	folder, err := filepath.Abs("../.data/bin")
	if err != nil {
		return "", err
	}
	return temporalBinary(context.Background(), given, folder, os.Stderr)
})

func requireTemporal(t *testing.T) string {
	t.Helper()
	path, err := testTemporal()
	require.NoError(t, err)
	return path
}

func startTemporal(ctx context.Context, t *testing.T, o TemporalOptions) *Temporal {
	t.Helper()
	o.Binary = requireTemporal(t)
	s, err := StartTemporal(ctx, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	return s
}

func temporalClient(t *testing.T, s *Temporal) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: s.Address, Namespace: s.Namespace, Logger: silent{}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// startWaiting starts a workflow that no worker runs, so it never ends.
func startWaiting(ctx context.Context, t *testing.T, s *Temporal, id string) {
	t.Helper()
	_, err := temporalClient(t, s).ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: "nobody"}, "Waiting")
	require.NoError(t, err)
}

func requireRunning(ctx context.Context, t *testing.T, s *Temporal, id string) {
	t.Helper()
	answer, err := temporalClient(t, s).DescribeWorkflowExecution(ctx, id, "")
	require.NoError(t, err)
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, answer.GetWorkflowExecutionInfo().GetStatus())
}

func TestTemporalKeepsItsWorkflowsOverARestart(t *testing.T) {
	t.Parallel()
	requireTemporal(t)
	ctx := testContext(t, time.Minute)
	ui, err := freePort()
	require.NoError(t, err)
	o := TemporalOptions{Dir: t.TempDir(), UIPort: ui, Tuned: true, Namespace: "shop"}

	s := startTemporal(ctx, t, o)
	require.Equal(t, "http://"+address(ui), s.UIURL)
	startWaiting(ctx, t, s, "kept")
	require.NoError(t, s.Stop(ctx))
	requireEnded(t, s.PID())
	require.NoFileExists(t, filepath.Join(o.Dir, "temporal.pid"))

	s = startTemporal(ctx, t, o)
	requireRunning(ctx, t, s, "kept")
}

func TestTemporalInMemoryKeepsNoState(t *testing.T) {
	t.Parallel()
	requireTemporal(t)
	ctx := testContext(t, time.Minute)
	o := TemporalOptions{Dir: t.TempDir(), InMemory: true, Tuned: true}
	s := startTemporal(ctx, t, o)
	require.Empty(t, s.UIURL)
	startWaiting(ctx, t, s, "gone")
	requireRunning(ctx, t, s, "gone")
	require.NoError(t, s.Stop(ctx))

	s = startTemporal(ctx, t, o)
	_, err := temporalClient(t, s).DescribeWorkflowExecution(ctx, "gone", "")
	_, notFound := errors.AsType[*serviceerror.NotFound](err)
	require.True(t, notFound, "%v", err)
}

func TestTemporalIsEndedAndItsStateKeptWhenItsParentIsKilled(t *testing.T) {
	t.Parallel()
	requireTemporal(t)
	ctx := testContext(t, time.Minute)
	dir := t.TempDir()
	port, err := freePort()
	require.NoError(t, err)

	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), temporalChild+"="+dir, "DLQ_DEV_TEST_TEMPORAL_PORT="+strconv.Itoa(port),
		"DLQ_DEV_TEST_TEMPORAL_BIN="+requireTemporal(t))
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	var leftover int
	_, err = fmt.Sscan(line, &leftover)
	require.NoError(t, err)
	startWaiting(ctx, t, &Temporal{Address: address(port), Namespace: "default"}, "survivor")
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()

	// On the same port and immediately: the old server must be gone.
	s := startTemporal(ctx, t, TemporalOptions{Dir: dir, Port: port})
	require.NotEqual(t, leftover, s.PID())
	requireEnded(t, leftover)
	requireRunning(ctx, t, s, "survivor")
}

func TestTemporalEndsTheServerThatItsPidFileNames(t *testing.T) {
	t.Parallel()
	requireTemporal(t)
	ctx := testContext(t, time.Minute)
	o := TemporalOptions{Dir: t.TempDir()}
	first := startTemporal(ctx, t, o) // never stopped: the next one finds it alive

	s := startTemporal(ctx, t, o)
	requireEnded(t, first.PID())
	startWaiting(ctx, t, s, "works")
}

func TestTemporalSparesAnotherProcessWithTheSamePid(t *testing.T) {
	t.Parallel()
	requireTemporal(t)
	ctx := testContext(t, time.Minute)
	innocent := exec.Command("sleep", "60")
	require.NoError(t, innocent.Start())
	t.Cleanup(func() { _ = innocent.Process.Kill(); _ = innocent.Wait() })
	o := TemporalOptions{Dir: t.TempDir()}
	require.NoError(t, writePID(o.pidFile(), innocent.Process.Pid))

	startTemporal(ctx, t, o)
	require.True(t, runsWith(innocent.Process.Pid, "60"))
}

func TestTemporalIsKilledWhenItDoesNotEndInTime(t *testing.T) {
	t.Parallel()
	s := startTemporal(testContext(t, time.Minute), t, TemporalOptions{Dir: t.TempDir()})
	now, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorContains(t, s.Stop(now), "killed")
	<-s.Done()
	requireEnded(t, s.PID())
	require.NoError(t, s.Stop(context.Background()), "stopping twice")
}

func TestTemporalPortInUseNamesItsSetting(t *testing.T) {
	t.Parallel()
	other, err := net.Listen("tcp", address(0))
	require.NoError(t, err)
	defer other.Close()
	port := other.Addr().(*net.TCPAddr).Port

	for setting, o := range map[string]TemporalOptions{
		"DLQ_DEV_TEMPORAL_PORT":    {Port: port, PortSetting: "DLQ_DEV_TEMPORAL_PORT"},
		"DLQ_DEV_TEMPORAL_UI_PORT": {UIPort: port, UIPortSetting: "DLQ_DEV_TEMPORAL_UI_PORT"},
	} {
		o.Dir, o.Binary = t.TempDir(), "true"
		_, err := StartTemporal(context.Background(), o)
		inUse, ok := errors.AsType[*PortInUseError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, port, inUse.Port)
		require.ErrorContains(t, err, setting+"=")
	}
}

func TestAFailedTemporalStartShowsTheLog(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "temporal")
	require.NoError(t, os.WriteFile(broken, []byte("#!/bin/sh\necho the disk is made of cheese\nexit 3\n"), 0o755))
	_, err := StartTemporal(testContext(t, time.Minute), TemporalOptions{Dir: t.TempDir(), Binary: broken})
	require.ErrorContains(t, err, "exit status 3")
	require.ErrorContains(t, err, "made of cheese")
}

func requireEnded(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || err == nil && len(state) == 0
	}, 10*time.Second, 20*time.Millisecond, "process %d lives", pid)
}
