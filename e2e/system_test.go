package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/temporaltest"
)

// system is an API and any number of workers, each in a separate process.
type system struct {
	t    *testing.T
	base string
	pool *pgxpool.Pool
	env  []string
	// topic and dlqTopic contain the name of the test.
	topic, dlqTopic string
	// token is the bearer token of requests that show sends.
	token string
	// programs is the folder of the programs of another version; empty for this version.
	programs string
	// image makes the commands of programs that run in a container image; nil for processes.
	image func(name string, args ...string) *exec.Cmd
}

// program is one running process.
type program struct {
	*exec.Cmd
	ready string
	log   *lockedBuffer
}

func newSystem(t *testing.T, cluster *kfake.Cluster) *system {
	t.Helper()
	u, err := url.Parse(dbtest.URL(t))
	require.NoError(t, err)
	return newSystemAt(t, u, temporaltest.Address(t), cluster)
}

// newSystemAt is newSystem with other addresses of the database and Temporal, such as the
// addresses of proxies.
func newSystemAt(t *testing.T, u *url.URL, temporal string, cluster *kfake.Cluster) *system {
	t.Helper()
	s := &system{t: t, pool: dbtest.Pool(t, dbtest.URL(t)), topic: t.Name() + ".v1", dlqTopic: t.Name() + ".dlq.v1"}
	require.NoError(t, cluster.CreateTopic(s.topic, 3, nil))
	require.NoError(t, cluster.CreateTopic(s.dlqTopic, 3, nil))
	s.env = environment(t, u, temporal, cluster)
	return s
}

// environment is the environment of the programs.
func environment(t *testing.T, u *url.URL, temporal string, cluster interface{ ListenAddrs() []string }) []string {
	t.Helper()
	password, _ := u.User.Password()
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(),
		"DLQ_DATABASE_HOST=" + u.Hostname(), "DLQ_DATABASE_PORT=" + u.Port(),
		"DLQ_DATABASE_NAME=" + strings.TrimPrefix(u.Path, "/"), "DLQ_DATABASE_USER=" + u.User.Username(),
		"DLQ_DATABASE_PASSWORD=" + password, "DLQ_DATABASE_SSL_MODE=disable",
		"DLQ_SERVER_DRAIN_DELAY=500ms",
		"DLQ_KAFKA_BROKERS=" + strings.Join(cluster.ListenAddrs(), ","),
		"DLQ_TEMPORAL_ADDRESS=" + temporal, "DLQ_TEMPORAL_TASK_QUEUE=" + temporaltest.TaskQueue(t),
	}
}

// startAPI starts the API and waits until it is ready.
func (s *system) startAPI() *program {
	s.t.Helper()
	address := freeAddress(s.t)
	s.base = "http://" + address
	return s.start("api", address, "DLQ_SERVER_PORT="+port(address))
}

// startWorker starts a worker and waits until it is ready.
func (s *system) startWorker() *program {
	s.t.Helper()
	address := freeAddress(s.t)
	return s.start("worker", address, "DLQ_WORKER_METRICS_PORT="+port(address))
}

func (s *system) start(name, address string, env ...string) *program {
	s.t.Helper()
	p := s.launch(name, address, env...)
	s.eventually(name+" is ready", func() bool { return p.readiness() == http.StatusOK })
	return p
}

// launch starts the program and does not wait until it is ready.
func (s *system) launch(name, address string, env ...string) *program {
	s.t.Helper()
	p := &program{Cmd: s.command(name), ready: "http://" + address + "/readyz", log: &lockedBuffer{}}
	p.Env = append(append([]string{}, s.env...), env...)
	p.Stdout, p.Stderr = p.log, p.log
	require.NoError(s.t, p.Start())
	s.t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
		if s.t.Failed() {
			s.t.Logf("%s said:\n%s", name, p.log.tail(6000))
		}
	})
	return p
}

// command is a program, in its image if there is one.
func (s *system) command(name string, args ...string) *exec.Cmd {
	if s.image != nil {
		return s.image(name, args...)
	}
	return exec.Command(filepath.Join(cmp.Or(s.programs, programs), name), args...)
}

// readiness is the status of /readyz, 0 while nothing listens.
func (p *program) readiness() int {
	response, err := http.Get(p.ready)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// kill ends the process by SIGKILL.
func (p *program) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, p.Process.Signal(syscall.SIGKILL))
	_ = p.Wait()
}

// end asks the process to stop and waits for it. It asserts nothing, so a
// goroutine may call it.
func (p *program) end() error {
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	_ = p.Wait() // the exit code has the result
	return nil
}

// call makes a request without a body, and decodes the answer into a map.
func (s *system) call(method, path string, headers ...string) (int, map[string]any) {
	s.t.Helper()
	return s.send(method, path, http.NoBody, headers...)
}

// send is call with a body.
func (s *system) send(method, path string, content io.Reader, headers ...string) (int, map[string]any) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, content)
	require.NoError(s.t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	var decoded map[string]any
	require.NoError(s.t, json.Unmarshal(body, &decoded), "%s %s: %s", method, path, body)
	return response.StatusCode, decoded
}

// count is a number in the answer.
func count(answer map[string]any, field string) int {
	n, _ := answer[field].(float64)
	return int(n)
}

func (s *system) eventually(what string, condition func() bool) {
	s.t.Helper()
	require.Eventually(s.t, condition, 60*time.Second, 20*time.Millisecond, what)
}

// givenAddresses are the addresses that freeAddress has returned.
var givenAddresses sync.Map

// freeAddress returns an unused address. Its port is below the ports that the system gives to connections
// and to listeners on port 0. So no other program takes the port before our program listens there, or while
// our program restarts.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(22_000))
		if _, given := givenAddresses.LoadOrStore(address, true); given {
			continue // another test has the address, and may not listen there yet
		}
		if listener, err := net.Listen("tcp", address); err == nil {
			require.NoError(t, listener.Close())
			return address
		}
	}
	require.Fail(t, "no port from 10,000 to 32,000 is free")
	return ""
}

// lockedBuffer is a buffer with a lock. It does not embed bytes.Buffer, because the method ReadFrom of
// bytes.Buffer would bypass the lock.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) tail(n int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := b.buf.String()
	if len(text) > n {
		return fmt.Sprintf("… %s", text[len(text)-n:])
	}
	return text
}
