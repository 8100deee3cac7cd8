// Package temporaltest gives tests a real Temporal server: the server at
// DLQ_TEST_TEMPORAL_ADDRESS if that is set. Otherwise the first test that needs a server
// starts an in-memory development server for its test process.
//
// The Temporal CLI comes from PATH, else from DLQ_TEST_TEMPORAL_BIN, else from .data/bin
// in the module's folder, where it is built once.
//
// A package that uses the server stops it in TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(temporaltest.Main(m)) }
//
// On Linux the server also ends when the test process is killed.
package temporaltest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"dlqmanager/dev"
)

const (
	// EnvAddress is host:port of a running server.
	EnvAddress = "DLQ_TEST_TEMPORAL_ADDRESS"
	// EnvBinary is the path of the Temporal CLI, used when it is not on PATH.
	EnvBinary = "DLQ_TEST_TEMPORAL_BIN"
)

// startTimeout leaves time to build the CLI.
const startTimeout = 8 * time.Minute

// Runner is *testing.M or a wrapper of it.
type Runner interface{ Run() int }

// Main runs the tests, stops the server, and returns the exit code. m may be the wrapper of
// another package.
func Main(m Runner) int { return Wrap(m).Run() }

// Wrap returns a Runner that does the same as Main. It can be passed to the wrapper of another package.
func Wrap(m Runner) Runner { return wrapped{m} }

type wrapped struct{ inner Runner }

func (w wrapped) Run() int {
	defer Stop()
	return w.inner.Run()
}

var shared struct {
	sync.Mutex
	started bool
	server  *dev.Temporal
	dir     string
	err     error
}

// Address returns host:port of the server, which it starts if necessary.
func Address(t testing.TB) string {
	t.Helper()
	if given := os.Getenv(EnvAddress); given != "" {
		return given
	}
	shared.Lock()
	defer shared.Unlock()
	if !shared.started {
		shared.started = true
		shared.server, shared.err = start()
	}
	if shared.err != nil {
		t.Fatalf("a Temporal server for tests: %v", shared.err)
	}
	return shared.server.Address
}

// start is called once, because a second attempt would take as long and fail for the same
// reason.
func start() (*dev.Temporal, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "temporaltest-")
	if err != nil {
		return nil, err
	}
	shared.dir = dir
	o := dev.TemporalOptions{
		Dir: dir, BinDir: filepath.Join(root, ".data", "bin"), InMemory: true, Tuned: true, Out: os.Stderr,
	}
	if _, err := exec.LookPath("temporal"); err != nil {
		o.Binary = os.Getenv(EnvBinary)
	}
	return dev.StartTemporal(ctx, o)
}

// moduleRoot is the folder of go.mod. Tests run in the folder of their package, which is inside moduleRoot.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = parent
	}
}

// Stop stops the server if one was started. Main calls Stop. A TestMain that cannot use Main
// calls Stop before os.Exit.
func Stop() {
	shared.Lock()
	defer shared.Unlock()
	if shared.server != nil {
		// There is no state to save, so the server is killed.
		killed, cancel := context.WithCancel(context.Background())
		cancel()
		_ = shared.server.Stop(killed)
	}
	if shared.dir != "" {
		_ = os.RemoveAll(shared.dir)
	}
	shared.server, shared.dir, shared.started, shared.err = nil, "", false, nil
}

// Client returns a client of the server's default namespace. It is closed at the end of the
// test, and logs nothing. change may adapt its options.
func Client(t testing.TB, change ...func(*client.Options)) client.Client {
	t.Helper()
	options := client.Options{HostPort: Address(t), Logger: silent{}}
	for _, c := range change {
		c(&options)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := client.DialContext(ctx, options)
	if err != nil {
		t.Fatalf("a client of the Temporal server at %s: %v", options.HostPort, err)
	}
	t.Cleanup(c.Close)
	return c
}

// TaskQueue returns a name that no other test uses, in this process or in another process
// that shares the server.
func TaskQueue(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("%s-%s", strings.ReplaceAll(t.Name(), "/", "-"), strings.ToLower(rand.Text()[:10]))
}

// silent discards the SDK's log. Many tests make activities fail on purpose, and check the
// result themselves.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}

var _ sdklog.Logger = silent{}
