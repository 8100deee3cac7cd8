package workflows_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"
	"go.uber.org/zap"

	"dlqmanager/activities"
	"dlqmanager/dlq"
	"dlqmanager/store/postgres"
	"dlqmanager/workflows"
)

// batches is an archive whose batches are scripted by batch. done counts the messages that they moved.
type batches struct {
	*postgres.Store
	done  atomic.Int64
	batch func(ctx context.Context, limit int) (int64, error)
}

func (b *batches) ArchiveBatch(ctx context.Context, _ dlq.ArchiveRun, _ time.Duration, limit int) (int64, error) {
	moved, err := b.batch(ctx, limit)
	b.done.Add(moved)
	return moved, err
}

// archiveOf archives whatever has ended, in small batches, and purges nothing.
func archiveOf(store activities.ArchiveStore) *activities.Archive {
	return &activities.Archive{Store: store, Retention: time.Nanosecond, PurgeAfter: 365 * 24 * time.Hour, BatchSize: 10,
		Metrics: activities.NewMetrics(prometheus.NewRegistry()), Log: zap.NewNop()}
}

// archiver is a worker that archives from the store.
func (s *system) archiver(t *testing.T, store activities.ArchiveStore) worker.Worker {
	t.Helper()
	return s.archiverOf(t, archiveOf(store))
}

func (s *system) archiverOf(t *testing.T, archive *activities.Archive) worker.Worker {
	t.Helper()
	w := workflows.NewWorker(s.temporal, s.queue, workflows.Activities{
		Retry: &activities.Retry{}, Jobs: &activities.Jobs{},
		Archive: archive,
	}, 20*time.Second, func(err error) { t.Errorf("the worker ended: %v", err) })
	require.NoError(t, w.Start())
	return w
}

func TestTheArchiveContinuesOnAnotherWorkerWhenItsWorkerStops(t *testing.T) {
	t.Parallel()
	for name, batch := range map[string]func(ctx context.Context, done int64, limit int) (int64, error){
		"between two batches": func(_ context.Context, _ int64, limit int) (int64, error) {
			<-time.After(20 * time.Millisecond)
			return int64(limit), nil
		},
		"in a batch that hangs": func(ctx context.Context, done int64, limit int) (int64, error) {
			if done < 50 {
				return int64(limit), nil
			}
			<-ctx.Done()
			return 0, ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startlessSystem(t)
			first := &batches{Store: s.store}
			first.batch = func(ctx context.Context, limit int) (int64, error) { return batch(ctx, first.done.Load(), limit) }
			stopping := s.archiver(t, first)
			e := s.archive(t)
			eventually(t, "it archives", func() bool { return first.done.Load() >= 50 })
			began := time.Now()
			stopping.Stop()
			require.Less(t, time.Since(began), 5*time.Second)
			archived := first.done.Load()

			second := &batches{Store: s.store, batch: func(context.Context, int) (int64, error) { return 3, nil }}
			staying := s.archiver(t, second)
			defer staying.Stop()
			var result workflows.ArchiveResult
			require.NoError(t, s.temporal.GetWorkflow(t.Context(), e.WorkflowID, e.RunID).Get(t.Context(), &result))
			// The first worker may lose the count of its last batch, 10 messages, as after a crash. The second worker adds
			// 3 messages.
			require.InDelta(t, archived-2, result.Archived, 5, "the count continues")
		})
	}
}

func TestEveryBatchOfTheArchiveHasADeadline(t *testing.T) {
	t.Parallel()
	s := startlessSystem(t)
	var until atomic.Value
	w := s.archiver(t, &batches{Store: s.store, batch: func(ctx context.Context, _ int) (int64, error) {
		deadline, _ := ctx.Deadline()
		until.Store(time.Until(deadline))
		return 0, nil
	}})
	defer w.Stop()
	e := s.archive(t)
	require.NoError(t, s.temporal.GetWorkflow(t.Context(), e.WorkflowID, e.RunID).Get(t.Context(), nil))
	require.LessOrEqual(t, until.Load(), 30*time.Second)
}
