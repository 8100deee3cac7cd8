package e2e

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/internal/kafkatest"
)

// The first retry is marked dead while the endpoint still works on its request. The message is
// revived and sent again, in vain. Then the endpoint accepts the first request.
func TestARevivedMessageIsResolvedByItsEarlierRetry(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	keys, held := make(chan string, 2), make(chan struct{})
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isFirst := requests.Add(1) == 1
		keys <- r.Header.Get("Idempotency-Key")
		if !isFirst {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		<-held
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	s.env = append(s.env, "DLQ_TARGETS_ENDPOINTS=shop="+server.URL, "DLQ_TARGETS_ROUTES="+s.topic+"=http:shop", "DLQ_TARGETS_ALLOWED_NETWORKS=127.0.0.0/8")
	s.startWorker()
	s.startAPI()
	s.produceDeadLetters(cluster, 1)
	s.eventually("it is stored", func() bool { return s.pending() == 1 })
	message := "/api/v1/dlq/messages/" + s.ids()[0]
	expect := func(want int, method, path string) map[string]any {
		status, answer := s.call(method, path, "Prefer", "respond-async")
		require.Equal(t, want, status, answer)
		return answer
	}
	expect(http.StatusAccepted, http.MethodPost, message+"/retry")
	firstKey := <-keys
	later := func(column string) {
		_, err := s.pool.Exec(t.Context(), `UPDATE dlq.dlq_messages SET `+column+` = now() - interval '61 seconds'`)
		require.NoError(t, err)
	}
	later("last_retry_at")
	expect(http.StatusOK, http.MethodPost, message+"/dead")
	expect(http.StatusConflict, http.MethodPost, message+"/revive")
	later("updated_at")
	expect(http.StatusOK, http.MethodPost, message+"/revive")
	bulk := expect(http.StatusAccepted, http.MethodPost, "/api/v1/dlq/"+s.dlqTopic+"/retry-all")
	require.NotEqual(t, firstKey, <-keys, "another retry has another key")
	s.eventually("the second retry has failed", func() bool { return s.rows("status = 'DEAD' AND resolution = 'refused'") == 1 })

	close(held)
	s.eventually("the first retry counts", func() bool { return s.rows("status = 'RESOLVED' AND resolution = 'delivered'") == 1 })
	answer := expect(http.StatusOK, http.MethodGet, message)
	var results []any
	for _, a := range answer["attempts"].([]any) {
		results = append(results, a.(map[string]any)["result"])
	}
	require.Equal(t, []any{"rejected", "delivered"}, results)
	require.Equal(t, "http:shop", answer["target"].(map[string]any)["topic"])
	s.eventually("the bulk retry ends", func() bool {
		_, answer = s.call(http.MethodGet, "/api/v1/jobs/"+bulk["job_id"].(string))
		return answer["state"] == "COMPLETED"
	})
	require.Equal(t, []int{0, 1}, []int{count(answer, "retried"), count(answer, "dead")})
}
