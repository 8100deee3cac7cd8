package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"dlqmanager/dev"
	"dlqmanager/dlq"
	"dlqmanager/telemetry"
)

// postgresSettings give the durability of production: a commit returns when its WAL is
// on the disk.
var postgresSettings = map[string]string{
	"fsync":              "on",
	"synchronous_commit": "on",
	"full_page_writes":   "on",
	"shared_buffers":     "1GB",
	"max_wal_size":       "8GB",
	"checkpoint_timeout": "15min",
	"max_connections":    "200",
	"log_min_messages":   "fatal",
}

// bench is one run of the program.
type bench struct {
	// archiving is set while row 24 archives.
	archiving atomic.Bool

	options
	progress io.Writer
	started  time.Time
	dir      string
	topics   *dlq.Topics
	samples  []dlq.Arrival
	rows     []row

	postgres  *dev.Postgres
	admin     *pgxpool.Pool
	templates map[string]bool
	databases int
	// large is the large table; nil before it is created.
	large *database

	tuned    *temporal
	programs string
}

func newBench(ctx context.Context, o options, progress io.Writer) (_ *bench, err error) {
	b := &bench{options: o, progress: progress, started: time.Now(), templates: map[string]bool{}, samples: sampleArrivals()}
	if b.topics, err = dlq.NewTopics(dlq.DefaultTopicPatterns, nil); err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp("", "dlq-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if err := os.Chmod(b.dir, 0o755); err != nil { // PostgreSQL may have to run as another user
		return nil, err
	}
	b.step("starting PostgreSQL and Temporal")
	settings := postgresSettings
	if o.profile != "" {
		if err := os.MkdirAll(o.profile, 0o755); err != nil {
			return nil, err
		}
		settings["shared_preload_libraries"] = "pg_stat_statements"
	}
	if b.postgres, err = dev.StartPostgres(ctx, dev.PostgresOptions{Dir: filepath.Join(b.dir, "postgres"), Settings: settings}); err != nil {
		return nil, err
	}
	if b.admin, err = pgxpool.New(ctx, b.postgres.URL("postgres")); err != nil {
		return nil, err
	}
	if o.profile != "" {
		if _, err := b.admin.Exec(ctx, "CREATE EXTENSION pg_stat_statements"); err != nil {
			return nil, err
		}
	}
	b.tuned, err = b.startTemporal(ctx, "tuned", true)
	return b, err
}

// temporal is a Temporal server and a connection to it.
type temporal struct {
	server  *dev.Temporal
	client  client.Client
	version string
}

// startTemporal starts a server with its state in memory. The baseline with a workflow for each message is
// fastest with this setting, so the comparison is fair.
func (b *bench) startTemporal(ctx context.Context, name string, tuned bool) (*temporal, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	server, err := dev.StartTemporal(ctx, dev.TemporalOptions{
		Dir: filepath.Join(b.dir, "temporal-"+name), BinDir: filepath.Join(root, ".data", "bin"),
		InMemory: true, Tuned: tuned, Out: b.progress,
	})
	if err != nil {
		return nil, err
	}
	connection, err := client.Dial(client.Options{HostPort: server.Address, Logger: telemetry.NewTemporalLogger(zap.NewNop())})
	if err != nil {
		return nil, errors.Join(err, server.Stop(ctx))
	}
	t := &temporal{server: server, client: connection}
	info, err := connection.WorkflowService().GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	if err != nil {
		t.stop(ctx)
		return nil, err
	}
	t.version = info.GetServerVersion()
	return t, nil
}

func (t *temporal) stop(ctx context.Context) {
	t.client.Close()
	_ = t.server.Stop(ctx) // an error does not matter, since nobody needs the server's state
}

// close stops all parts and removes their folder.
func (b *bench) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if b.tuned != nil {
		b.tuned.stop(ctx)
	}
	if b.large != nil {
		b.large.pool.Close()
	}
	if b.admin != nil {
		b.admin.Close()
	}
	if b.postgres != nil {
		_ = b.postgres.Stop(ctx) // its folder is removed next
	}
	if err := os.RemoveAll(b.dir); err != nil {
		fmt.Fprintln(b.progress, "bench:", err)
	}
}

// step prints the progress.
func (b *bench) step(format string, args ...any) {
	fmt.Fprintf(b.progress, "%7.1fs  %s\n", time.Since(b.started).Seconds(), fmt.Sprintf(format, args...))
}

// moduleRoot is the folder of go.mod.
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
			return "", errors.New("run it inside the module: there is no go.mod here or above")
		}
		dir = parent
	}
}
