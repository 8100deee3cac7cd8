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

// partStop bounds how long one part may take to stop before it is left to its
// own devices; all of them survive being killed.
const partStop = 15 * time.Second

// Endpoints are where the parts of a stack are. What was given rather than
// started is passed on as it was given; of a given database nothing but the host
// is known.
type Endpoints struct {
	// DatabaseURL is empty when the database was given.
	DatabaseURL  string
	DatabaseHost string
	DatabasePort int
	DatabaseUser string
	DatabaseName string

	Brokers         []string
	TemporalAddress string
	// TemporalUIURL is empty without an embedded server with a Web UI.
	TemporalUIURL string
}

// Stack is what the manager depends on, running.
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

// StartStack starts every part that was not given and returns once all of them
// serve. When one fails the others are stopped again. Errors name what to
// change: a port in use the variable that moves it, a folder in use its process.
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

	// Kafka takes milliseconds. The other two take seconds and do not need each
	// other, so they start side by side.
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
		s.given("Kafka", fmt.Sprint(o.Brokers))
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
		s.given("PostgreSQL", o.DatabaseHost)
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
		s.given("Temporal", o.TemporalAddress)
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

// Failed delivers an error when a part ends although nobody stopped it. What
// runs on the stack should then end too.
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

// Stop ends the parts in the reverse order of their start, each within a time
// limit and all of them before ctx ends. Stopping again does nothing.
func (s *Stack) Stop(ctx context.Context) error {
	s.mu.Lock()
	parts := s.parts
	s.parts = nil
	s.mu.Unlock()
	var failures []error
	for _, p := range slices.Backward(parts) {
		start := time.Now()
		limited, cancel := context.WithTimeout(ctx, partStop)
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

func (s *Stack) given(name, where string) { s.print("  %-16s given: %s\n", name, where) }

func (s *Stack) print(format string, args ...any) {
	fmt.Fprintf(lockedWriter{&s.mu, s.out}, format, args...)
}

// lockedWriter keeps the lines of parts that start side by side whole.
type lockedWriter struct {
	mu  *sync.Mutex
	out io.Writer
}

func (w lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(b)
}
