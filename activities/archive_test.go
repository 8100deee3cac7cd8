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
