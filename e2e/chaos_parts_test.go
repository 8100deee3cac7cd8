package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/dev"
	"dlqmanager/internal/temporaltest"
)

const chaosDatabase = "chaos"

// partStop is how long a part may take to stop cleanly before it is killed.
const partStop = 20 * time.Second

// startParts starts all parts and waits until they are ready.
func (c *chaos) startParts() {
	c.startBroker()
	c.postgres = c.newPostgres()
	c.temporal = c.newTemporal()
	c.databaseURL = c.postgres.server.URL(chaosDatabase)
	pool, err := pgxpool.New(c.t.Context(), c.databaseURL+"&pool_max_conns=6")
	require.NoError(c.t, err)
	c.t.Cleanup(pool.Close)
	c.pool = pool
	for i := range 2 {
		c.workers = append(c.workers, c.newProgram(fmt.Sprintf("worker-%d", i+1), "worker", "DLQ_WORKER_METRICS_PORT"))
	}
	c.api = c.newProgram("api", "api", "DLQ_SERVER_PORT")
	for _, p := range c.programs() {
		p.start()
	}
	c.waitUntil("all programs are ready", 2*time.Minute, c.allReady)
	c.producer = c.newProducer()
}

func (c *chaos) programs() []*chaosProgram { return append(slices.Clone(c.workers), c.api) }

func (c *chaos) allReady() bool {
	for _, p := range c.programs() {
		if !p.ready() {
			return false
		}
	}
	return true
}

// waysTo makes proxies to all parts. Only one program uses them.
func (c *chaos) waysTo() map[string]*proxy {
	ways := map[string]*proxy{
		"postgres": newProxy(c.t, net.JoinHostPort("127.0.0.1", strconv.Itoa(c.postgres.server.Port))),
		"broker":   newKafkaProxy(c.t, c.broker.Brokers()[0]),
		"temporal": newProxy(c.t, c.temporal.server.Address),
	}
	for _, way := range ways {
		way.join(c.t)
	}
	return ways
}

// environment is the environment of a program. It allows more retries than a run can use,
// so a message that is DEAD at the end is a violation.
func (c *chaos) environment(ways map[string]*proxy) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir,
		"DLQ_DATABASE_HOST=127.0.0.1", "DLQ_DATABASE_PORT=" + port(ways["postgres"].address),
		"DLQ_DATABASE_NAME=" + chaosDatabase, "DLQ_DATABASE_USER=postgres", "DLQ_DATABASE_SSL_MODE=disable",
		"DLQ_KAFKA_BROKERS=" + ways["broker"].address, "DLQ_KAFKA_MAX_RETRIES=50",
		"DLQ_TEMPORAL_ADDRESS=" + ways["temporal"].address,
	}
}

// chaosPostgres is a server that keeps its port and its data over restarts.
type chaosPostgres struct {
	c       *chaos
	options dev.PostgresOptions
	server  *dev.Postgres
}

func (c *chaos) newPostgres() *chaosPostgres {
	// The folder has a name like the folders of the other test servers. So the next test
	// program removes it if this test program is killed. Another user may need access.
	dir, err := os.MkdirTemp("", fmt.Sprintf("dlq-postgres-%d-", os.Getpid()))
	require.NoError(c.t, err)
	require.NoError(c.t, os.Chmod(dir, 0o755))
	log, err := os.Create(filepath.Join(c.dir, "postgres.log"))
	require.NoError(c.t, err)
	p := &chaosPostgres{c: c, options: dev.PostgresOptions{Dir: dir, Log: log}}
	c.t.Cleanup(func() {
		if p.server != nil {
			_ = p.server.Stop(context.Background())
		}
		_ = log.Close()
		_ = os.RemoveAll(dir)
	})
	p.start()
	p.options.Port = p.server.Port
	require.NoError(c.t, p.server.EnsureDatabase(c.t.Context(), chaosDatabase))
	return p
}

func (p *chaosPostgres) start() {
	server, err := dev.StartPostgres(p.c.t.Context(), p.options)
	require.NoError(p.c.t, err)
	p.server = server
}

func (p *chaosPostgres) stop() {
	ctx, cancel := context.WithTimeout(p.c.t.Context(), partStop)
	defer cancel()
	if err := p.server.Stop(ctx); err != nil {
		p.c.journal.note("%v", err)
	}
}

// copyData copies one folder of the stopped server over another.
func (p *chaosPostgres) copyData(from, to string) {
	require.NoError(p.c.t, os.RemoveAll(filepath.Join(p.options.Dir, to)))
	output, err := exec.CommandContext(p.c.t.Context(), "cp", "-a", filepath.Join(p.options.Dir, from), filepath.Join(p.options.Dir, to)).CombinedOutput()
	require.NoError(p.c.t, err, string(output))
}

// kill ends the postmaster as a crash does. Its backends notice that and end too.
func (p *chaosPostgres) kill() {
	text, err := os.ReadFile(filepath.Join(p.options.Dir, "data", "postmaster.pid"))
	require.NoError(p.c.t, err)
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(p.c.t, err)
	require.NoError(p.c.t, syscall.Kill(pid, syscall.SIGKILL))
	<-p.server.Done()
	p.stop()
}

// chaosTemporal is a server that keeps its port and its database over restarts.
type chaosTemporal struct {
	c       *chaos
	options dev.TemporalOptions
	server  *dev.Temporal
}

func (c *chaos) newTemporal() *chaosTemporal {
	binaries, err := filepath.Abs(filepath.Join("..", ".data", "bin"))
	require.NoError(c.t, err)
	s := &chaosTemporal{c: c, options: dev.TemporalOptions{
		Dir: filepath.Join(c.t.TempDir(), "temporal"), BinDir: binaries, Tuned: true, Out: os.Stderr,
	}}
	if _, err := exec.LookPath("temporal"); err != nil {
		s.options.Binary = os.Getenv(temporaltest.EnvBinary)
	}
	address := freeAddress(c.t)
	s.options.Port, err = strconv.Atoi(port(address))
	require.NoError(c.t, err)
	c.t.Cleanup(func() {
		if s.server != nil {
			_ = s.server.Stop(context.Background())
		}
	})
	s.start()
	return s
}

func (s *chaosTemporal) start() {
	ctx, cancel := context.WithTimeout(s.c.t.Context(), 8*time.Minute) // Temporal may have to be built
	defer cancel()
	server, err := dev.StartTemporal(ctx, s.options)
	require.NoError(s.c.t, err)
	s.server = server
}

func (s *chaosTemporal) stop() {
	ctx, cancel := context.WithTimeout(s.c.t.Context(), partStop)
	defer cancel()
	_ = s.server.Stop(ctx) // kills the server if it takes too long
}

func (s *chaosTemporal) kill() {
	_ = syscall.Kill(s.server.PID(), syscall.SIGKILL)
	<-s.server.Done()
	s.stop()
}
