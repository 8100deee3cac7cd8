package temporaltest_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"dlqmanager/internal/temporaltest"
)

// holdServer makes this test program start its server, print its address, and wait until
// it is killed.
const holdServer = "DLQ_TEST_TEMPORALTEST_HOLD"

func TestMain(m *testing.M) { os.Exit(temporaltest.Main(m)) }

func TestWorkflowRunsOnItsOwnTaskQueue(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "b"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, queue := temporaltest.Client(t), temporaltest.TaskQueue(t)
			w := worker.New(c, queue, worker.Options{})
			w.RegisterWorkflowWithOptions(func(workflow.Context) (string, error) { return name, nil },
				workflow.RegisterOptions{Name: "Name"})
			require.NoError(t, w.Start())
			t.Cleanup(w.Stop)

			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: queue, TaskQueue: queue}, "Name")
			require.NoError(t, err)
			var got string
			require.NoError(t, run.Get(ctx, &got))
			require.Equal(t, name, got)
		})
	}
}

func TestTaskQueuesDiffer(t *testing.T) {
	t.Parallel()
	first := temporaltest.TaskQueue(t)
	require.True(t, strings.HasPrefix(first, "TestTaskQueuesDiffer-"), first)
	require.NotEqual(t, first, temporaltest.TaskQueue(t))
}

func TestOneServerServesTheWholeProcess(t *testing.T) {
	t.Parallel()
	require.Equal(t, temporaltest.Address(t), temporaltest.Address(t))
}

func TestGivenServerIsUsed(t *testing.T) {
	t.Setenv(temporaltest.EnvAddress, "temporal.example:7233")
	require.Equal(t, "temporal.example:7233", temporaltest.Address(t))
}

// TestHeldServer is the body of the process that the next test kills.
func TestHeldServer(t *testing.T) {
	t.Parallel()
	if os.Getenv(holdServer) == "" {
		return
	}
	fmt.Println("address", temporaltest.Address(t))
	select {}
}

func TestServerDiesWithAKilledTestProcess(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: only Linux ends a child with its parent")
	}
	held := exec.Command(os.Args[0], "-test.run=^TestHeldServer$")
	held.Env = append(os.Environ(), holdServer+"=1", "TMPDIR="+t.TempDir())
	held.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := held.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, held.Start())
	t.Cleanup(func() { _ = held.Process.Kill() })
	var address string
	for lines := bufio.NewScanner(out); address == "" && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "address %s", &address)
	}
	require.NotEmpty(t, address)
	serves := func() bool {
		c, err := client.DialContext(context.Background(), client.Options{HostPort: address})
		if err == nil {
			c.Close()
		}
		return err == nil
	}
	require.True(t, serves())

	require.NoError(t, held.Process.Kill())
	_ = held.Wait()
	require.Eventually(t, func() bool { return !serves() }, 10*time.Second, 50*time.Millisecond)
}
