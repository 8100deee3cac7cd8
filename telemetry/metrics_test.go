package telemetry_test

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"dlqmanager/telemetry"
)

// gather returns the metrics of a scrape, by name.
func gather(t *testing.T, registry *prometheus.Registry) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	byName := map[string]*dto.MetricFamily{}
	for _, family := range families {
		byName[family.GetName()] = family
	}
	return byName
}

func labels(metric *dto.Metric) map[string]string {
	pairs := map[string]string{}
	for _, pair := range metric.GetLabel() {
		pairs[pair.GetName()] = pair.GetValue()
	}
	return pairs
}

func TestRegistryHasTheBuildInfo(t *testing.T) {
	t.Parallel()
	registry := telemetry.NewRegistry("dlq-manager", "1.2.3")
	families := gather(t, registry)
	build := families["dlq_build_info"].GetMetric()
	require.Len(t, build, 1)
	require.InDelta(t, 1, build[0].GetGauge().GetValue(), 0)
	require.Equal(t, "dlq-manager", labels(build[0])["app"])
	require.Equal(t, "1.2.3", labels(build[0])["version"])
	require.Contains(t, labels(build[0])["go_version"], "go1.")
	require.Contains(t, families, "go_goroutines")
	require.Contains(t, families, "process_start_time_seconds")

	require.NotPanics(t, func() { telemetry.NewRegistry("dlq-manager", "1.2.3") }, "nothing is global")
	problems, err := testutil.GatherAndLint(registry, "dlq_build_info")
	require.NoError(t, err)
	require.Empty(t, problems)
}

func temporalMetrics(t *testing.T) (*prometheus.Registry, client.MetricsHandler) {
	t.Helper()
	registry := prometheus.NewRegistry()
	handler, stop, err := telemetry.NewTemporalMetrics(registry, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stop(context.Background())) })
	return registry, handler
}

func TestTemporalMetricsHaveSecondsTotalsAndAPrefix(t *testing.T) {
	t.Parallel()
	registry, handler := temporalMetrics(t)
	tagged := handler.WithTags(map[string]string{"task_queue": "dlq-manager", "workflow_type": "RetryMessage"})
	tagged.Counter("temporal_workflow_completed").Inc(3)
	tagged.Gauge("temporal_num_pollers").Update(2)
	tagged.Timer("temporal_activity_execution_latency").Record(20 * time.Millisecond)
	tagged.Counter("own_counter").Inc(1)

	families := gather(t, registry)
	require.Len(t, families, 4, "neither target_info nor scope labels: %v", families)
	want := map[string]string{"task_queue": "dlq-manager", "workflow_type": "RetryMessage"}

	counter := families["temporal_workflow_completed_total"]
	require.Equal(t, dto.MetricType_COUNTER, counter.GetType())
	require.InDelta(t, 3, counter.GetMetric()[0].GetCounter().GetValue(), 0)
	require.Equal(t, want, labels(counter.GetMetric()[0]))

	require.InDelta(t, 2, families["temporal_num_pollers"].GetMetric()[0].GetGauge().GetValue(), 0)
	require.Contains(t, families, "temporal_own_counter_total")

	latency := families["temporal_activity_execution_latency_seconds"].GetMetric()[0].GetHistogram()
	require.InDelta(t, 0.02, latency.GetSampleSum(), 1e-9)
	for _, bucket := range latency.GetBucket() {
		wanted := uint64(0)
		if bucket.GetUpperBound() >= 0.02 {
			wanted = 1
		}
		require.Equal(t, wanted, bucket.GetCumulativeCount(), "buckets are in seconds: %v", bucket)
	}
}

func TestTemporalMetricsOfARealClient(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close()) // nothing listens at the address any more

	registry, handler := temporalMetrics(t)
	c, err := client.NewLazyClient(client.Options{
		HostPort: address, MetricsHandler: handler, Logger: telemetry.NewTemporalLogger(zap.NewNop()),
	})
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err = c.DescribeWorkflowExecution(ctx, "w", "")
	require.Error(t, err)

	families := gather(t, registry)
	require.NotEmpty(t, families)
	for name, family := range families {
		require.True(t, strings.HasPrefix(name, "temporal_"), name)
		for _, metric := range family.GetMetric() {
			for label, value := range labels(metric) {
				require.NotEqual(t, "w", value, "no workflow id in label %s of %s", label, name)
			}
		}
	}
	require.Contains(t, families, "temporal_request_failure_total")
	require.Contains(t, families, "temporal_request_latency_seconds")
}

func TestTemporalLabelsStayFew(t *testing.T) {
	t.Parallel()
	registry, handler := temporalMetrics(t)
	for i := range 1500 {
		handler.WithTags(map[string]string{"workflow_id": strconv.Itoa(i), "worker_id": strconv.Itoa(i)}).Counter("by_id").Inc(1)
		handler.WithTags(map[string]string{"operation": strconv.Itoa(i)}).Counter("by_operation").Inc(1)
	}
	families := gather(t, registry)

	byID := families["temporal_by_id_total"].GetMetric()
	require.Len(t, byID, 1, "ids are summed over")
	require.InDelta(t, 1500, byID[0].GetCounter().GetValue(), 0)

	byOperation := families["temporal_by_operation_total"].GetMetric()
	require.LessOrEqual(t, len(byOperation), 1000)
	total := 0.0
	for _, metric := range byOperation {
		total += metric.GetCounter().GetValue()
	}
	require.InDelta(t, 1500, total, 0, "nothing is lost by the limit")
}

func TestPoolMetricsOfARealPool(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(context.Background(), "postgres://u@127.0.0.1:1/d?pool_max_conns=7&connect_timeout=1")
	require.NoError(t, err)
	defer pool.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.Error(t, pool.Ping(ctx)) // an acquire is cancelled

	registry := prometheus.NewPedanticRegistry()
	telemetry.RegisterPool(registry, pool.Stat)
	families := gather(t, registry)
	require.Len(t, families, 12)
	for name := range families {
		require.True(t, strings.HasPrefix(name, "dlq_db_pool_"), name)
	}
	require.InDelta(t, 7, families["dlq_db_pool_connections_max"].GetMetric()[0].GetGauge().GetValue(), 0)
	require.InDelta(t, 1, families["dlq_db_pool_acquires_cancelled_total"].GetMetric()[0].GetCounter().GetValue(), 0)
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}
