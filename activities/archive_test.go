package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.uber.org/zap"

	"dlqmanager/activities"
	"dlqmanager/dlq"
)

// full is an archive whose batches are always full.
type full struct {
	batches  int
	recorded []string
}

func (f *full) RecordArchiveRuns(_ context.Context, runID string) error {
	f.recorded = append(f.recorded, runID)
	return nil
}

func (f *full) ArchiveBatch(_ context.Context, _ dlq.ArchiveRun, _ time.Duration, limit int) (int64, error) {
	f.batches++
	return int64(limit), nil
}

func (f *full) PurgeBatch(ctx context.Context, run dlq.ArchiveRun, olderThan time.Duration, limit int) (int64, error) {
	return f.ArchiveBatch(ctx, run, olderThan, limit)
}

func (f *full) PurgeOperations(ctx context.Context, olderThan time.Duration, limit int) (int64, error) {
	return f.ArchiveBatch(ctx, dlq.ArchiveRun{}, olderThan, limit)
}

func (f *full) PurgeGroups(ctx context.Context, olderThan time.Duration, limit int) (int64, error) {
	return f.ArchiveBatch(ctx, dlq.ArchiveRun{}, olderThan, limit)
}

// old has old messages, old operations and old groups.
type old struct {
	full
	messages, operations, groups int64
	retention, groupRetention    time.Duration
}

func (o *old) PurgeBatch(_ context.Context, _ dlq.ArchiveRun, _ time.Duration, limit int) (int64, error) {
	return take(&o.messages, limit), nil
}

func (o *old) PurgeOperations(_ context.Context, olderThan time.Duration, limit int) (int64, error) {
	o.retention = olderThan
	return take(&o.operations, limit), nil
}

func (o *old) PurgeGroups(_ context.Context, olderThan time.Duration, limit int) (int64, error) {
	o.groupRetention = olderThan
	return take(&o.groups, limit), nil
}

func take(left *int64, limit int) int64 {
	n := min(*left, int64(limit))
	*left -= n
	return n
}

func TestAPurgeAlsoDeletesOldOperationsAndGroups(t *testing.T) {
	t.Parallel()
	for _, retention := range []time.Duration{0, 400 * 24 * time.Hour} {
		store := &old{messages: 7, operations: 25, groups: 12}
		archive := &activities.Archive{Store: store, PurgeAfter: time.Hour, BatchSize: 5, AuditRetention: retention,
			Metrics: activities.NewMetrics(prometheus.NewRegistry()), Log: zap.NewNop()}
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestActivityEnvironment()
		env.RegisterActivity(archive)
		result, err := env.ExecuteActivity(archive.Purge)
		require.NoError(t, err)
		var purged int64
		require.NoError(t, result.Get(&purged))
		require.EqualValues(t, 7, purged, "of messages only")
		require.Zero(t, store.messages)
		require.Len(t, store.recorded, 1)
		require.Equal(t, retention, store.retention)
		require.Equal(t, map[bool]int64{true: 25}[retention == 0], store.operations, "without a retention they are kept")
		require.Zero(t, store.groups)
		require.Equal(t, dlq.GroupRetention, store.groupRetention)
	}
}

// A worker that was put together without its configuration must not purge everything.
func TestAnArchiveWithoutItsConfigurationFails(t *testing.T) {
	t.Parallel()
	store := &full{}
	for _, archive := range []*activities.Archive{
		{}, {BatchSize: 1}, {Retention: time.Hour, PurgeAfter: time.Hour}, {Retention: -time.Hour, PurgeAfter: -time.Hour, BatchSize: 1},
	} {
		archive.Store, archive.Metrics, archive.Log = store, activities.NewMetrics(prometheus.NewRegistry()), zap.NewNop()
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestActivityEnvironment()
		env.RegisterActivity(archive)
		for _, step := range []any{archive.MoveToArchive, archive.Purge} {
			_, err := env.ExecuteActivity(step)
			var refused *temporal.ApplicationError
			require.ErrorAs(t, err, &refused)
			require.True(t, refused.NonRetryable())
			require.Contains(t, refused.Message(), "both must be positive")
		}
	}
	require.Zero(t, store.batches)
}
