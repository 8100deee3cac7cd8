package telemetry_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"dlqmanager/telemetry"
)

var errRefused = errors.New("dial 10.1.2.3 as admin: refused")

func well(context.Context) error { return nil }

func TestReadinessFollowsItsDependenciesAndLogsOnlyChanges(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	var unavailable atomic.Bool
	unavailable.Store(true)
	ready := telemetry.NewReadiness(map[string]telemetry.Check{
		"database": well,
		"kafka": func(context.Context) error {
			if unavailable.Load() {
				return errRefused
			}
			return nil
		},
		"temporal": func(context.Context) error { panic("boom") },
	}, time.Second, zap.New(core))
	results := ready.Results()
	require.Len(t, results, 3)
	require.NoError(t, results["database"])
	require.ErrorIs(t, results["kafka"], errRefused)
	require.ErrorContains(t, results["temporal"], "boom")

	unavailable.Store(false)
	require.Eventually(t, func() bool { return ready.Results()["kafka"] == nil }, 10*time.Second, 50*time.Millisecond)
	require.Len(t, logs.FilterMessage("dependency is unavailable").All(), 2, "in two rounds at least")
	require.Len(t, logs.FilterMessage("dependency is available again").All(), 1)
}

func TestReadinessRunsChecksConcurrentlyAndDoesNotWaitForOneThatHangs(t *testing.T) {
	t.Parallel()
	database, kafka := make(chan struct{}), make(chan struct{})
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	var rounds, hung atomic.Int32
	ready := telemetry.NewReadiness(map[string]telemetry.Check{
		"database": func(context.Context) error { // returns only while the other check runs
			rounds.Add(1)
			database <- <-kafka
			return nil
		},
		"kafka": func(context.Context) error {
			kafka <- struct{}{}
			<-database
			return nil
		},
		"temporal": func(context.Context) error { hung.Add(1); <-never; return nil }, // ignores the end of its context
	}, time.Second, zap.NewNop())
	began := time.Now()
	results := ready.Results()
	require.Less(t, time.Since(began), 10*time.Second)
	require.NoError(t, results["database"])
	require.NoError(t, results["kafka"])
	require.EqualError(t, results["temporal"], "no answer within 1s")
	require.Eventually(t, func() bool {
		ready.Results()
		return rounds.Load() > 1
	}, 10*time.Second, 50*time.Millisecond)
	require.EqualValues(t, 1, hung.Load(), "a check that hangs is not started a second time")
}

func TestReadinessAsksOnceForManyProbes(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	ready := telemetry.NewReadiness(map[string]telemetry.Check{
		"database": func(context.Context) error { asked.Add(1); return nil },
	}, time.Second, zap.NewNop())
	began := time.Now()
	for range 20 {
		require.NoError(t, ready.Results()["database"])
	}
	require.LessOrEqual(t, int(asked.Load()), 1+int(time.Since(began)/time.Second))
}
