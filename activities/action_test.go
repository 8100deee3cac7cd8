package activities_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.uber.org/zap"

	"dlqmanager/activities"
	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/memory"
)

func TestABulkActionCountsTheMessagesThatItChanged(t *testing.T) {
	t.Parallel()
	store, registry := memory.New(dlqtest.Topics(t)), prometheus.NewRegistry()
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
			# HELP dlq_bulk_action_messages_total Messages that bulk actions changed, by action (revive, dead, delete).
			# TYPE dlq_bulk_action_messages_total counter
			dlq_bulk_action_messages_total{action="dead"} 1005
			dlq_bulk_action_messages_total{action="delete"} 0
			dlq_bulk_action_messages_total{action="revive"} 0
		`), "dlq_bulk_action_messages_total"))
	}
	_, err = env.ExecuteActivity(action.BeginAction, dlq.NewID())
	require.ErrorContains(t, err, "not found")
}
