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

func TestABulkActionCountsTheMessagesThatItChanged(t *testing.T) {
	t.Parallel()
	store, registry := postgres.New(dbtest.New(t), dlqtest.Topics(t)), prometheus.NewRegistry()
	_, err := store.StoreArrivals(t.Context(), dlqtest.Arrivals(dlq.ActionBatch+5))
	require.NoError(t, err)
	action := &activities.Action{Store: store, Metrics: activities.NewMetrics(registry), Log: zap.NewNop()}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(action)
	job, err := store.CreateAction(t.Context(), dlqtest.Action(dlq.ActionDead, dlq.Filter{Topic: "orders"}))
	require.NoError(t, err)
	for range 2 { // a repeat finds nothing left
		_, err = env.ExecuteActivity(action.ChangeMessages, job.ID)
		require.NoError(t, err)
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
			# HELP dlq_bulk_action_messages_total Messages that bulk actions changed, by action (revive, dead, delete, restore).
			# TYPE dlq_bulk_action_messages_total counter
			dlq_bulk_action_messages_total{action="dead"} 1005
			dlq_bulk_action_messages_total{action="delete"} 0
			dlq_bulk_action_messages_total{action="restore"} 0
			dlq_bulk_action_messages_total{action="revive"} 0
		`), "dlq_bulk_action_messages_total"))
	}
	_, err = env.ExecuteActivity(action.BeginAction, dlq.NewID())
	require.ErrorContains(t, err, "not found")
}

// slowDatabase finishes no batch of more than 100 messages, until it has finished ten. It
// refuses the batch whose number is refused.
type slowDatabase struct {
	*postgres.Store
	limits  []int
	refused int
}

func (s *slowDatabase) Act(ctx context.Context, job dlq.BulkAction, limit int) (dlq.ActionStep, error) {
	s.limits = append(s.limits, limit)
	if len(s.limits) == s.refused {
		return dlq.ActionStep{}, fmt.Errorf("a trigger: %w", dlq.ErrFull)
	}
	if limit > 100 && len(s.limits) < 10 {
		return dlq.ActionStep{}, dlq.ErrSlow
	}
	return s.Store.Act(ctx, job, limit)
}

func runAction(t *testing.T, store *slowDatabase) (dlq.BulkAction, error) {
	t.Helper()
	_, err := store.StoreArrivals(t.Context(), dlqtest.Arrivals(3*dlq.ActionBatch))
	require.NoError(t, err)
	action := &activities.Action{Store: store, Metrics: activities.NewMetrics(prometheus.NewRegistry()), Log: zap.NewNop()}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(action)
	job, err := store.CreateAction(t.Context(), dlqtest.Action(dlq.ActionDelete, dlq.Filter{Topic: "orders"}))
	require.NoError(t, err)
	_, failure := env.ExecuteActivity(action.ChangeMessages, job.ID)
	job, err = store.Action(t.Context(), job.ID)
	require.NoError(t, err)
	return job, failure
}

func TestABatchThatTakesTooLongIsRepeatedSmallerAndGrowsAgain(t *testing.T) {
	t.Parallel()
	store := &slowDatabase{Store: postgres.New(dbtest.New(t), dlqtest.Topics(t))}
	job, err := runAction(t, store)
	require.NoError(t, err)
	require.EqualValues(t, 3*dlq.ActionBatch, job.Changed)
	require.Equal(t, []int{1000, 500, 250, 125, 62, 124, 62, 124, 62, 124, 248, 496}, store.limits[:12])
}

func TestABulkActionThatDoesNotContinueSaysWhy(t *testing.T) {
	t.Parallel()
	store := &slowDatabase{Store: postgres.New(dbtest.New(t), dlqtest.Topics(t)), refused: 11}
	job, err := runAction(t, store)
	require.ErrorContains(t, err, "a trigger")
	require.Equal(t, dlq.BulkRunning, job.State)
	require.Equal(t, "unavailable", job.Reason, "only an answer of the server itself is shown word for word")
}
