package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// partStopTimeout limits the stop of one part. PostgreSQL and Temporal are then killed, and
// Kafka ends with this process. That is safe: no part loses its state.
const partStopTimeout = 15 * time.Second

// Endpoints are the addresses of a stack's parts. External services keep their
// configured address; of an external database only the host is known.
type Endpoints struct {
	// DatabaseURL is empty for an external database.
	DatabaseURL  string
	DatabaseHost string
	DatabasePort int
	DatabaseUser string
	DatabaseName string

	Brokers         []string
	TemporalAddress string
	// TemporalUIURL is empty unless the stack started a server with a Web UI.
	TemporalUIURL string
}

// Stack is the running dependencies of the manager.
type Stack struct {
	Endpoints

	out    io.Writer
	lock   *fileLock
	failed chan error

	mu    sync.Mutex
	parts []part // in the order in which they became ready
}

type part struct {
	name string
	stop func(context.Context) error
}

// StartStack starts every part that is not external, and returns once all of them
// serve. When one fails, it stops the others. Errors name the remedy: the variable of a
// port that is taken, the process that uses a folder.
func StartStack(ctx context.Context, o StackOptions) (_ *Stack, err error) {
	s := &Stack{out: o.Out, failed: make(chan error, 2)}
	if s.out == nil {
		s.out = io.Discard
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, err
	}
	s.lock, err = tryLock(filepath.Join(o.Dir, "lock"))
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("%s is in use: %w; stop it, or use another folder with %s=<folder>", o.Dir, err, EnvDir)
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
		}
	}()

	// Kafka takes milliseconds. The other two take seconds and are independent, so they
	// start concurrently.
	if err = s.startKafka(ctx, o); err != nil {
		return nil, err
	}
	group, groupContext := errgroup.WithContext(ctx)
	group.Go(func() error { return s.startPostgres(groupContext, o) })
	group.Go(func() error { return s.startTemporal(groupContext, o) })
	if err = group.Wait(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Stack) startKafka(ctx context.Context, o StackOptions) error {
	if len(o.Brokers) > 0 {
		s.Brokers = o.Brokers
		s.external("Kafka", fmt.Sprint(o.Brokers))
		return nil
	}
	start := time.Now()
	k, err := StartKafka(ctx, KafkaOptions{
		Dir: filepath.Join(o.Dir, "kafka"), Port: o.KafkaPort, PortSetting: EnvKafkaPort, Topics: o.Topics, Log: o.Log,
	})
	if err != nil {
		return err
	}
	s.Brokers = k.Brokers
	s.ready("Kafka", k.Brokers[0], start, k.Stop)
	return nil
}

func (s *Stack) startPostgres(ctx context.Context, o StackOptions) error {
	if o.DatabaseHost != "" {
		s.DatabaseHost = o.DatabaseHost
		s.external("PostgreSQL", o.DatabaseHost)
		return nil
	}
	start := time.Now()
	p, err := StartPostgres(ctx, PostgresOptions{
		Dir: filepath.Join(o.Dir, "postgres"), Port: o.PostgresPort, PortSetting: EnvPostgresPort,
	})
	if err != nil {
		return err
	}
	if err := p.EnsureDatabase(ctx, DatabaseName); err != nil {
		s.add(part{"PostgreSQL", p.Stop})
		return err
	}
	s.DatabaseURL = p.URL(DatabaseName)
	s.DatabaseHost, s.DatabasePort = loopback, p.Port
	s.DatabaseUser, s.DatabaseName = postgresUser, DatabaseName
	s.ready("PostgreSQL "+p.Version, address(p.Port), start, p.Stop)
	s.watch("PostgreSQL", p.Done())
	return nil
}

func (s *Stack) startTemporal(ctx context.Context, o StackOptions) error {
	if o.TemporalAddress != "" {
		s.TemporalAddress = o.TemporalAddress
		s.external("Temporal", o.TemporalAddress)
		return nil
	}
	start := time.Now()
	t, err := StartTemporal(ctx, TemporalOptions{
		Dir: filepath.Join(o.Dir, "temporal"), Binary: o.TemporalBinary, BinDir: filepath.Join(o.Dir, "bin"),
		Port: o.TemporalPort, PortSetting: EnvTemporalPort, UIPort: o.TemporalUIPort, UIPortSetting: EnvTemporalUIPort,
		Tuned: !o.TemporalPaced, Out: lockedWriter{&s.mu, s.out}, Log: o.Log,
	})
	if err != nil {
		return err
	}
	s.TemporalAddress, s.TemporalUIURL = t.Address, t.UIURL
	where := t.Address
	if t.UIURL != "" {
		where += ", Web UI " + t.UIURL
	}
	s.ready("Temporal", where, start, t.Stop)
	s.watch("Temporal", t.Done())
	return nil
}

// Failed delivers an error when a part ends by itself. The programs that use the stack
// should then end too.
func (s *Stack) Failed() <-chan error { return s.failed }

func (s *Stack) watch(name string, done <-chan struct{}) {
	go func() {
		<-done
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.parts != nil { // not stopping
			s.failed <- fmt.Errorf("%s ended by itself; its log is in its folder", name)
		}
	}()
}

// Stop stops the parts in the reverse order of their start, each within a time limit
// and all before ctx ends. A second call does nothing.
func (s *Stack) Stop(ctx context.Context) error {
	s.mu.Lock()
	parts := s.parts
	s.parts = nil
	s.mu.Unlock()
	var failures []error
	for _, p := range slices.Backward(parts) {
		start := time.Now()
		limited, cancel := context.WithTimeout(ctx, partStopTimeout)
		err := p.stop(limited)
		cancel()
		if err != nil {
			failures = append(failures, fmt.Errorf("stop %s: %w", p.name, err))
			continue
		}
		s.print("  %-16s stopped in %.1f s\n", p.name, time.Since(start).Seconds())
	}
	if s.lock != nil {
		s.lock.release()
		s.lock = nil
	}
	return errors.Join(failures...)
}

func (s *Stack) add(p part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = append(s.parts, p)
}

func (s *Stack) ready(name, where string, start time.Time, stop func(context.Context) error) {
	s.add(part{name, stop})
	s.print("  %-16s ready in %.1f s: %s\n", name, time.Since(start).Seconds(), where)
}

func (s *Stack) external(name, where string) { s.print("  %-16s external: %s\n", name, where) }

func (s *Stack) print(format string, args ...any) {
	fmt.Fprintf(lockedWriter{&s.mu, s.out}, format, args...)
}

// lockedWriter keeps the lines of concurrent parts intact.
type lockedWriter struct {
	mu  *sync.Mutex
	out io.Writer
}

func (w lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(b)
}
