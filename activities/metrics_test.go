package activities_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"dlqmanager/activities"
)

// A rate does not see the value with which a series begins.
func TestTheRetriesThatAlertsCompareStartAtZero(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	activities.NewMetrics(registry)
	found, err := testutil.GatherAndCount(registry, "dlq_retried_total")
	require.NoError(t, err)
	require.Equal(t, 5, found, "delivered, and the four categories of errors")
}
