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
)

// full is an archive whose batches are always full.
type full struct{ batches int }

func (f *full) ArchiveBatch(_ context.Context, _ time.Duration, limit int) (int64, error) {
	f.batches++
	return int64(limit), nil
}

func (f *full) PurgeBatch(ctx context.Context, olderThan time.Duration, limit int) (int64, error) {
	return f.ArchiveBatch(ctx, olderThan, limit)
}

func (f *full) PurgeOperations(ctx context.Context, olderThan time.Duration, limit int) (int64, error) {
	return f.ArchiveBatch(ctx, olderThan, limit)
}

// old has old messages and old operations.
type old struct {
	full
	messages, operations int64
	retention            time.Duration
}

func (o *old) PurgeBatch(_ context.Context, _ time.Duration, limit int) (int64, error) {
	return take(&o.messages, limit), nil
}

func (o *old) PurgeOperations(_ context.Context, olderThan time.Duration, limit int) (int64, error) {
	o.retention = olderThan
	return take(&o.operations, limit), nil
}

func take(left *int64, limit int) int64 {
	n := min(*left, int64(limit))
	*left -= n
	return n
}

func TestAPurgeAlsoDeletesOldOperations(t *testing.T) {
	t.Parallel()
	for _, retention := range []time.Duration{0, 400 * 24 * time.Hour} {
		store := &old{messages: 7, operations: 25}
		archive := &activities.Archive{Store: store, AuditRetention: retention,
			Metrics: activities.NewMetrics(prometheus.NewRegistry()), Log: zap.NewNop()}
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestActivityEnvironment()
		env.RegisterActivity(archive)
		result, err := env.ExecuteActivity(archive.Purge, activities.ArchiveInput{OlderThan: time.Hour, BatchSize: 5})
		require.NoError(t, err)
		var purged int64
		require.NoError(t, result.Get(&purged))
		require.EqualValues(t, 7, purged, "of messages only")
		require.Zero(t, store.messages)
		require.Equal(t, retention, store.retention)
		require.Equal(t, map[bool]int64{true: 25}[retention == 0], store.operations, "without a retention they are kept")
	}
}

// Temporal does not check the input of an edited schedule.
func TestAnArchiveWithAnInvalidInputFails(t *testing.T) {
	t.Parallel()
	store := &full{}
	archive := &activities.Archive{Store: store, Metrics: activities.NewMetrics(prometheus.NewRegistry()), Log: zap.NewNop()}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(archive)
	for _, step := range []any{archive.MoveToArchive, archive.Purge} {
		for _, in := range []activities.ArchiveInput{{BatchSize: 0}, {BatchSize: -1}, {OlderThan: -time.Hour, BatchSize: 1}} {
			_, err := env.ExecuteActivity(step, in)
			var refused *temporal.ApplicationError
			require.ErrorAs(t, err, &refused)
			require.True(t, refused.NonRetryable())
			require.Contains(t, refused.Message(), "both must be positive")
		}
	}
	require.Zero(t, store.batches)
}
