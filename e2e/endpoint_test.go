package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/workflows"
)

// shopEndpoint is an HTTP endpoint that remembers its requests.
type shopEndpoint struct {
	mu sync.Mutex
	// requests has the number of requests with each idempotency key.
	requests map[string]int
	// last has the newest order of each key. disordered counts the orders whose first request came after
	// the request of a newer order.
	last       map[string]int
	disordered int
	total      int
	// at calls a function when the number of requests is reached.
	at map[int]func()
}

func (s *shopEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var order struct {
		ID int `json:"order_id,string"`
	}
	if json.NewDecoder(r.Body).Decode(&order) != nil {
		w.WriteHeader(489)
		return
	}
	id, key := r.Header.Get("Idempotency-Key"), r.Header.Get("Dlq-Key")
	s.mu.Lock()
	s.total++
	reached := s.at[s.total]
	if s.requests[id]++; s.requests[id] == 1 {
		if last, seen := s.last[key]; seen && last > order.ID {
			s.disordered++
		}
		s.last[key] = order.ID
	}
	s.mu.Unlock()
	if reached != nil {
		reached()
	}
	w.WriteHeader(http.StatusNoContent)
}

// sizeOf reads the size of a test from the environment.
func sizeOf(t *testing.T, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	size, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	return size
}

func TestABulkRetryToAnEndpointSurvivesKillsOfItsWorker(t *testing.T) {
	t.Parallel()
	messages, kills := sizeOf(t, "DLQ_TEST_ENDPOINT_MESSAGES", 5_000), sizeOf(t, "DLQ_TEST_ENDPOINT_KILLS", 2)
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	reached := make(chan struct{})
	shop := &shopEndpoint{requests: map[string]int{}, last: map[string]int{}, at: map[int]func(){}}
	for kill := range kills {
		shop.at[(kill+1)*messages/(kills+1)] = func() { reached <- struct{}{} } // waits until the worker is killed
	}
	server := httptest.NewServer(shop)
	t.Cleanup(server.Close)
	s.env = append(s.env, "DLQ_TARGETS_ENDPOINTS=shop="+server.URL, "DLQ_TARGETS_ROUTES="+s.topic+"=http:shop", "DLQ_TARGETS_ALLOWED_NETWORKS=127.0.0.0/8")
	worker := s.startWorker()
	s.startAPI()
	s.produceDeadLetters(cluster, messages)
	s.eventually("all are stored", func() bool { return s.pending() == messages })

	started := time.Now()
	status, answer := s.call(http.MethodPost, "/api/v1/dlq/"+s.dlqTopic+"/retry-all", "Prefer", "respond-async")
	require.Equal(t, http.StatusAccepted, status)
	bulk := "/api/v1/jobs/" + answer["job_id"].(string)
	for range kills {
		<-reached
		worker.kill(t)
		worker = s.startWorker()
	}
	require.Eventually(t, func() bool {
		_, answer = s.call(http.MethodGet, bulk)
		return answer["state"] != "RUNNING"
	}, 5*time.Minute, 50*time.Millisecond)
	t.Logf("ended after %s", time.Since(started).Round(time.Millisecond))
	require.Equal(t, "COMPLETED", answer["state"])
	require.Equal(t, messages, count(answer, "retried"))
	require.Equal(t, messages, s.rows("status = 'RESOLVED' AND retry_count = 1"))
	shop.mu.Lock()
	defer shop.mu.Unlock()
	require.Len(t, shop.requests, messages, "each message has one idempotency key")
	t.Logf("%d requests were sent twice", shop.total-messages)
	require.LessOrEqual(t, shop.total-messages, kills*lanes*dlq.PageSize, "no more than the pages in flight")
	require.Zero(t, shop.disordered, "each key in its order")
	partitions := 0
	for _, partition := range cluster.PartitionInfos(s.topic) {
		partitions += int(partition.HighWatermark)
	}
	require.Zero(t, partitions, "nothing goes to the original topic")
}

const (
	signingSecret = "zq7SigningSecret"
	tokenSecret   = "zq7EndpointToken"
	querySecret   = "zq7QuerySecret"
)

func TestSecretsOfAnEndpointAppearInNoOutput(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	s.env = append(s.env, "DLQ_LOG_LEVEL=debug", "DLQ_AUDIT_LOG=true")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Upstash-Nonretryable-Error", "true")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = fmt.Fprintf(w, "no such order; %s %v %s", r.URL, r.Header, signingSecret)
	}))
	t.Cleanup(server.Close)
	file := func(name, content string) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	configuration := file("config.yaml", fmt.Sprintf(`targets:
  routes: {%s: "http:shop"}
  endpoints:
    shop: {url: "%s/in?token=%s", secrets_file: %s, token_file: %s}
  allowed_networks: [127.0.0.0/8]
`, s.topic, server.URL, querySecret, file("secrets", signingSecret), file("token", tokenSecret)))
	s.image = func(name string, args ...string) *exec.Cmd {
		return exec.Command(filepath.Join(programs, name), append([]string{"-config", configuration}, args...)...)
	}
	worker, api := s.startWorker(), s.startAPI()
	s.produceDeadLetters(cluster, 2)
	s.eventually("they are stored", func() bool { return s.pending() == 2 })
	ids, marks := s.ids(), []string{signingSecret, tokenSecret, querySecret}

	retried := s.show(http.MethodPost, "/api/v1/dlq/messages/"+ids[0]+"/retry", "")
	require.Contains(t, retried, "http:shop answered 500 Internal Server Error: no such order")
	require.Contains(t, retried, `"status":"DEAD"`)
	require.Contains(t, retried, "[redacted]")
	requireAbsent(t, "the answer", []byte(retried), marks...)
	s.show(http.MethodPost, "/api/v1/dlq/"+s.dlqTopic+"/retry-all", "")
	s.eventually("the bulk retry ended", func() bool { return s.rows("status = 'DEAD' AND resolution = 'refused' AND retry_count = 1") == 2 })
	for _, path := range []string{"/api/v1/dlq/messages/" + ids[0], "/api/v1/dlq/messages/" + ids[1] + "/chain", "/api/v1/jobs", "/api/v1/audit", "/metrics"} {
		requireAbsent(t, path, []byte(s.show(http.MethodGet, path, "")), marks...)
	}
	require.Contains(t, s.show(http.MethodGet, "/api/v1/dlq/messages/"+ids[1], ""), "no such order", "the attempt shows it")
	requireAbsent(t, "the configuration", s.run("worker", "config"), marks...)
	metrics, err := http.Get(strings.TrimSuffix(worker.ready, "/readyz") + "/metrics")
	require.NoError(t, err)
	content, err := io.ReadAll(metrics.Body)
	require.NoError(t, err)
	require.NoError(t, metrics.Body.Close())
	require.Contains(t, string(content), `dlq_republished_total{result="bad_data",topic="http:shop"} 2`)
	requireAbsent(t, "the worker's metrics", content, marks...)
	require.NoError(t, api.end())
	require.NoError(t, worker.end())
	for name, p := range map[string]*program{"the API's log": api, "the worker's log": worker} {
		requireAbsent(t, name, []byte(p.log.tail(1<<30)), marks...)
	}
	s.requireCleanHistories(ids[0], marks, workflows.RetryMessageType, workflows.RetryAllType)
}
