package activities_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.uber.org/zap"

	"dlqmanager/activities"
	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
)

func TestABulkChangeCountsTheMessagesThatItChanged(t *testing.T) {
	t.Parallel()
	store, registry := postgres.New(dbtest.New(t), dlqtest.Topics(t)), prometheus.NewRegistry()
	_, err := store.Ingest(t.Context(), dlqtest.Arrivals(dlq.ChangeBatch+5), nil)
	require.NoError(t, err)
	action := &activities.Jobs{Store: store, Metrics: activities.NewMetrics(registry), Log: zap.NewNop()}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(action)
	job, err := store.CreateJob(t.Context(), nil, dlqtest.Change(dlq.KindDead, dlq.Filter{Topic: "orders"}))
	require.NoError(t, err)
	for range 2 { // a repeat finds nothing left
		_, err = env.ExecuteActivity(action.ChangeMessages, job.ID)
		require.NoError(t, err)
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
			# HELP dlq_changed_total Messages that jobs changed, by kind (revive, dead, delete, restore).
			# TYPE dlq_changed_total counter
			dlq_changed_total{kind="dead"} 1005
			dlq_changed_total{kind="delete"} 0
			dlq_changed_total{kind="restore"} 0
			dlq_changed_total{kind="revive"} 0
		`), "dlq_changed_total"))
	}
	_, err = env.ExecuteActivity(action.BeginJob, dlq.NewID())
	require.ErrorContains(t, err, "not found")
}

// slowDatabase finishes no batch of more than 100 messages, until it has finished ten. It
// refuses the batch whose number is refused.
type slowDatabase struct {
	*postgres.Store
	limits  []int
	refused int
}

func (s *slowDatabase) Act(ctx context.Context, job dlq.Job, limit int) (dlq.ChangeStep, error) {
	s.limits = append(s.limits, limit)
	if len(s.limits) == s.refused {
		return dlq.ChangeStep{}, fmt.Errorf("a trigger: %w", dlq.ErrFull)
	}
	if limit > 100 && len(s.limits) < 10 {
		return dlq.ChangeStep{}, dlq.ErrSlow
	}
	return s.Store.Act(ctx, job, limit)
}

func runAction(t *testing.T, store *slowDatabase) (dlq.Job, error) {
	t.Helper()
	_, err := store.Ingest(t.Context(), dlqtest.Arrivals(3*dlq.ChangeBatch), nil)
	require.NoError(t, err)
	action := &activities.Jobs{Store: store, Metrics: activities.NewMetrics(prometheus.NewRegistry()), Log: zap.NewNop()}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(action)
	job, err := store.CreateJob(t.Context(), nil, dlqtest.Change(dlq.KindDelete, dlq.Filter{Topic: "orders"}))
	require.NoError(t, err)
	_, failure := env.ExecuteActivity(action.ChangeMessages, job.ID)
	job, err = store.Job(t.Context(), job.ID)
	require.NoError(t, err)
	return job, failure
}

func TestABatchThatTakesTooLongIsRepeatedSmallerAndGrowsAgain(t *testing.T) {
	t.Parallel()
	store := &slowDatabase{Store: postgres.New(dbtest.New(t), dlqtest.Topics(t))}
	job, err := runAction(t, store)
	require.NoError(t, err)
	require.EqualValues(t, 3*dlq.ChangeBatch, job.Counts.Changed)
	require.Equal(t, []int{1000, 500, 250, 125, 62, 124, 62, 124, 62, 124, 248, 496}, store.limits[:12])
}

func TestABulkChangeThatDoesNotContinueSaysWhy(t *testing.T) {
	t.Parallel()
	store := &slowDatabase{Store: postgres.New(dbtest.New(t), dlqtest.Topics(t)), refused: 11}
	job, err := runAction(t, store)
	require.ErrorContains(t, err, "a trigger")
	require.Equal(t, dlq.JobRunning, job.State)
	require.Equal(t, "unavailable", job.Reason, "only an answer of the server itself is shown word for word")
}
