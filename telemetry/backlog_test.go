package telemetry_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"dlqmanager/dlq"
	"dlqmanager/telemetry"
)

func TestBacklogIsShownByTopicAndStatusAndCountedSeldom(t *testing.T) {
	t.Parallel()
	var counts atomic.Int32
	oldest := time.Now().Add(-time.Hour)
	collector := telemetry.NewBacklogCollector(func(context.Context) ([]dlq.TopicSummary, error) {
		counts.Add(1)
		return []dlq.TopicSummary{
			{DLQTopic: "orders.dlq", Counts: map[dlq.Status]int64{dlq.StatusPending: 7, dlq.StatusDead: 2}, OldestPending: &oldest},
			{DLQTopic: "idle.dlq", Counts: map[dlq.Status]int64{dlq.StatusResolved: 1}},
		}, nil
	}, zap.NewNop())
	for range 10 {
		require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(`
# HELP dlq_messages Messages in the store, by dead-letter topic and status. Topics beyond the first 1000 are "other". Every replica has the same value.
# TYPE dlq_messages gauge
dlq_messages{status="DEAD",topic="idle.dlq"} 0
dlq_messages{status="DEAD",topic="orders.dlq"} 2
dlq_messages{status="PENDING",topic="idle.dlq"} 0
dlq_messages{status="PENDING",topic="orders.dlq"} 7
dlq_messages{status="RESOLVED",topic="idle.dlq"} 1
dlq_messages{status="RESOLVED",topic="orders.dlq"} 0
dlq_messages{status="RETRYING",topic="idle.dlq"} 0
dlq_messages{status="RETRYING",topic="orders.dlq"} 0
`), "dlq_messages"))
	}
	require.Equal(t, 1, testutil.CollectAndCount(collector, "dlq_oldest_pending_age_seconds"))
	require.EqualValues(t, 1, counts.Load())

	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(collector))
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "dlq_oldest_pending_age_seconds" {
			require.InDelta(t, 3600, family.GetMetric()[0].GetGauge().GetValue(), 60)
		}
	}
}

func TestBacklogNeitherDelaysAScrapeNorInventsNumbers(t *testing.T) {
	t.Parallel()
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	collector := telemetry.NewBacklogCollector(func(context.Context) ([]dlq.TopicSummary, error) {
		<-never
		return nil, nil
	}, zap.NewNop())
	requireNothing(t, collector)
}

// requireNothing requires that a collector exports no metrics.
func requireNothing(t *testing.T, collector prometheus.Collector) {
	t.Helper()
	collected := make(chan int, 1)
	go func() { collected <- testutil.CollectAndCount(collector) }()
	select {
	case n := <-collected:
		require.Zero(t, n)
	case <-time.After(20 * time.Second):
		t.Fatal("a scrape waits for ever")
	}
}
