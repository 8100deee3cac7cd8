package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/internal/kafkatest"
)

// Alert rules and dashboards refer to these names.
func TestMetricsAreThere(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	worker, api := s.startWorker(), s.startAPI()
	s.produceDeadLetters(cluster, 300)
	s.eventually("all are stored", func() bool { return s.pending() == 300 })
	require.Contains(t, worker.metrics(t), "\ndlq_oldest_pending_age_seconds{")
	status, _ := s.call(http.MethodPost, "/api/v1/dlq/"+s.dlqTopic+"/retry-all", "Prefer", "wait=30")
	require.Equal(t, http.StatusOK, status)

	for _, name := range []string{
		"dlq_messages{", "dlq_ingested_total{", "dlq_ingest_lag{", "dlq_ingest_stalled",
		"dlq_retried_total{", "dlq_republish_duration_seconds_bucket", "dlq_republished_total{",
		"dlq_archived_total", "dlq_purged_total", "dlq_orphans_released_total", `dlq_changed_total{kind="revive"} 0`,
		"dlq_db_pool_", "dlq_kafka_", "temporal_", "go_goroutines", "process_resident_memory_bytes", "dlq_build_info",
	} {
		s.eventually("the worker's "+name, func() bool { return strings.Contains(worker.metrics(t), "\n"+name) })
	}
	require.Contains(t, worker.metrics(t), `dlq_retried_total{category="",result="delivered"} 300`)
	scraped := api.metrics(t)
	for _, name := range []string{"dlq_http_requests_total{", "dlq_http_request_duration_seconds_bucket", "dlq_db_pool_", "temporal_"} {
		require.Contains(t, scraped, "\n"+name)
	}
}

func (p *program) metrics(t *testing.T) string {
	t.Helper()
	response, err := http.Get(strings.TrimSuffix(p.ready, "/readyz") + "/metrics")
	if err != nil {
		t.Errorf("metrics: %v", err)
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Errorf("metrics: %v", err)
	}
	return string(body)
}
