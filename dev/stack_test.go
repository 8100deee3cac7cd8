package dev

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
)

func environment(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

// freeStack returns options that cannot collide with other stacks.
func freeStack(t *testing.T) StackOptions {
	t.Helper()
	o := DefaultStackOptions()
	o.Dir = t.TempDir()
	o.PostgresPort, o.KafkaPort, o.TemporalPort = 0, 0, 0
	var err error
	o.TemporalUIPort, err = freePort()
	require.NoError(t, err)
	o.TemporalBinary = requireTemporal(t)
	return o
}

func TestStackStartsEverythingKeepsItsStateAndStops(t *testing.T) {
	t.Parallel()
	o := freeStack(t)
	ctx := testContext(t, 3*time.Minute)
	o.Topics = []string{"shop.orders.dlq"}
	var out bytes.Buffer
	o.Out = &out

	s, err := StartStack(ctx, o)
	require.NoError(t, err)
	db, err := pgx.Connect(ctx, s.DatabaseURL)
	require.NoError(t, err)
	_, err = db.Exec(ctx, "CREATE TABLE kept (id INT); INSERT INTO kept VALUES (42)")
	require.NoError(t, err)
	require.NoError(t, db.Close(ctx))
	startWaiting(ctx, t, &Temporal{Address: s.TemporalAddress, Namespace: "default"}, "kept")
	require.NoError(t, s.Stop(ctx))
	require.NoError(t, s.Stop(ctx), "stopping twice")
	require.Empty(t, s.Failed(), "stopping is no failure")

	o.Topics = nil
	s, err = StartStack(ctx, o)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Stop(ctx)) }()
	db, err = pgx.Connect(ctx, s.DatabaseURL)
	require.NoError(t, err)
	defer db.Close(ctx)
	var kept int
	require.NoError(t, db.QueryRow(ctx, "SELECT id FROM kept").Scan(&kept))
	require.Equal(t, 42, kept)
	requireRunning(ctx, t, &Temporal{Address: s.TemporalAddress, Namespace: "default"}, "kept")
	topics, err := kadm.NewClient(newKafkaClient(t, s.Brokers[0])).ListTopics(ctx)
	require.NoError(t, err)
	require.True(t, topics.Has("shop.orders.dlq"))
	require.Equal(t, s.DatabaseURL, "postgres://"+s.DatabaseUser+"@"+s.DatabaseHost+":"+strconv.Itoa(s.DatabasePort)+
		"/"+s.DatabaseName+"?sslmode=disable")
	for _, line := range []string{"Kafka", "PostgreSQL", "Temporal", "ready in", "stopped in", s.TemporalUIURL} {
		require.Contains(t, out.String(), line)
	}
}

func TestStackDoesNotStartExternalServices(t *testing.T) {
	t.Parallel()
	o, err := StackOptionsFromEnv(environment(map[string]string{
		EnvDir: t.TempDir(), EnvDatabaseHost: "db.example", EnvBrokers: "k1.example:9092, k2.example:9092",
		EnvTemporalAddress: "temporal.example:7233",
	}))
	require.NoError(t, err)
	s, err := StartStack(context.Background(), o)
	require.NoError(t, err)
	require.Equal(t, Endpoints{
		DatabaseHost: "db.example", Brokers: []string{"k1.example:9092", "k2.example:9092"},
		TemporalAddress: "temporal.example:7233",
	}, s.Endpoints)
	require.Empty(t, s.parts)
	require.NoError(t, s.Stop(context.Background()))
}

func TestStackOptionsComeFromTheEnvironment(t *testing.T) {
	t.Parallel()
	o, err := StackOptionsFromEnv(environment(nil))
	require.NoError(t, err)
	require.Equal(t, DefaultStackOptions(), o)

	o, err = StackOptionsFromEnv(environment(map[string]string{
		EnvDir: "elsewhere", EnvPostgresPort: "1", EnvKafkaPort: "2", EnvTemporalPort: "3", EnvTemporalUIPort: "0", EnvReceiptsPort: "4",
		EnvTemporalBinary: "/opt/temporal", "TEMPORAL_ADDRESS": "own.example:7233",
	}))
	require.NoError(t, err)
	require.Equal(t, StackOptions{
		Dir: "elsewhere", PostgresPort: 1, KafkaPort: 2, TemporalPort: 3, ReceiptsPort: 4,
		TemporalBinary: "/opt/temporal", TemporalAddress: "own.example:7233",
	}, o)

	_, err = StackOptionsFromEnv(environment(map[string]string{EnvKafkaPort: "70000"}))
	require.ErrorContains(t, err, EnvKafkaPort)
}

func TestASecondStackInOneFolderNamesTheFirst(t *testing.T) {
	t.Parallel()
	o := freeStack(t)
	o.DatabaseHost, o.TemporalAddress = "db.example", "temporal.example:7233"
	first, err := StartStack(context.Background(), o)
	require.NoError(t, err)

	_, err = StartStack(context.Background(), o)
	require.ErrorIs(t, err, errLocked)
	require.ErrorContains(t, err, strconv.Itoa(os.Getpid()))
	require.ErrorContains(t, err, EnvDir)

	require.NoError(t, first.Stop(context.Background()))
	second, err := StartStack(context.Background(), o)
	require.NoError(t, err)
	require.NoError(t, second.Stop(context.Background()))
}

func TestAStackThatFailsStopsItsParts(t *testing.T) {
	t.Parallel()
	other, err := net.Listen("tcp", address(0))
	require.NoError(t, err)
	defer other.Close()
	o := freeStack(t)
	o.DatabaseHost, o.TemporalBinary = "db.example", "true"
	o.TemporalPort = other.Addr().(*net.TCPAddr).Port
	o.KafkaPort, err = freePort()
	require.NoError(t, err)

	_, err = StartStack(context.Background(), o)
	_, inUse := errors.AsType[*PortInUseError](err)
	require.True(t, inUse, "%v", err)
	require.ErrorContains(t, err, EnvTemporalPort)
	require.NoError(t, checkPort("Kafka", o.KafkaPort, ""), "Kafka still runs")
	lock, err := tryLock(filepath.Join(o.Dir, "lock"))
	require.NoError(t, err, "the folder is still locked")
	lock.release()
}

func TestStackReportsAPartThatEndsByItself(t *testing.T) {
	t.Parallel()
	o := freeStack(t)
	ctx := testContext(t, time.Minute)
	o.DatabaseHost = "db.example"
	s, err := StartStack(ctx, o)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Stop(ctx)) }()

	pid, err := os.ReadFile(filepath.Join(o.Dir, "temporal", "temporal.pid"))
	require.NoError(t, err)
	number, err := strconv.Atoi(string(bytes.TrimSpace(pid)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(number, syscall.SIGKILL))
	select {
	case err := <-s.Failed():
		require.ErrorContains(t, err, "Temporal ended")
	case <-ctx.Done():
		t.Fatal("no error was reported")
	}
}

func TestConcurrentProcessesBuildAProgramOnce(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "bin", "tool")
	var builds atomic.Int32
	var asking sync.WaitGroup
	b := buildOnce{target: target, build: func(_ context.Context, dir string, _ io.Writer) error {
		builds.Add(1)
		return os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\n"), 0o755)
	}}
	for range 4 {
		asking.Go(func() {
			path, err := b.ensure(context.Background())
			if err != nil || path != target || !isExecutable(path) {
				t.Errorf("%q, %v", path, err)
			}
		})
	}
	asking.Wait()
	require.EqualValues(t, 1, builds.Load())
}

func TestAFailedBuildLeavesNoFiles(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "bin")
	target := filepath.Join(bin, "tool")
	_, err := buildOnce{target: target, build: func(_ context.Context, dir string, _ io.Writer) error {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tool"), []byte("half"), 0o755))
		return errors.New("no space")
	}}.ensure(context.Background())
	require.ErrorContains(t, err, "no space")
	entries, err := os.ReadDir(bin)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, "tool.lock", entries[0].Name())
}

func TestBuildIgnoresTheCallersSettings(t *testing.T) {
	t.Parallel()
	got := buildEnvironment([]string{"HOME=/home/x", "GOFLAGS=-mod=vendor", "GOOS=plan9", "GOWORK=/x", "GOPROXY=keep"})
	require.Equal(t, []string{"HOME=/home/x", "GOPROXY=keep", "GOWORK=off", "CGO_ENABLED=0"}, got)
}
