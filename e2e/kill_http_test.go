package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/internal/kafkatest"
)

func TestASingleRetryToAnEndpointSurvivesAKillBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	killDuringHTTPRetry(t, false)
}

func TestASingleRetryToAnEndpointSurvivesAKillBetweenTheAnswerAndFinalize(t *testing.T) {
	t.Parallel()
	killDuringHTTPRetry(t, true)
}

// killDuringHTTPRetry kills the worker once the endpoint has the message. The kill comes before the answer
// of the endpoint, or after the answer, while finalize waits for a lock.
func killDuringHTTPRetry(t *testing.T, answersFirst bool) {
	t.Helper()
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	requests := make(chan http.Header, 100)
	held := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r.Header.Clone()
		select {
		case <-held:
			w.WriteHeader(http.StatusNoContent)
		case <-r.Context().Done(): // the worker that sent the request is dead
		}
	}))
	t.Cleanup(server.Close)
	s.env = append(s.env, "DLQ_TARGETS_ENDPOINTS=shop="+server.URL, "DLQ_TARGETS_ROUTES="+s.topic+"=http:shop", "DLQ_TARGETS_ALLOWED_NETWORKS=127.0.0.0/8")
	worker := s.startWorker()
	s.startAPI()
	s.produceDeadLetters(cluster, 1)
	s.eventually("it is stored", func() bool { return s.pending() == 1 })
	path := "/api/v1/dlq/messages/" + s.ids()[0]
	status, answer := s.call(http.MethodPost, path+"/retry", "Prefer", "respond-async")
	require.Equal(t, http.StatusAccepted, status, answer)
	first := <-requests

	if answersFirst {
		other, err := s.pool.Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = other.Rollback(context.Background()) }()
		_, err = other.Exec(t.Context(), "SELECT FROM dlq.dlq_messages FOR UPDATE")
		require.NoError(t, err)
		close(held)
		s.eventually("finalize waits for the lock", func() bool {
			var waiting int
			require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting))
			return waiting > 0
		})
		worker.kill(t)
		// The server may still run the statement of the dead worker, and commit it.
		require.NoError(t, other.Rollback(t.Context()))
	} else {
		worker.kill(t)
		close(held)
		require.Zero(t, s.rows("status = 'RESOLVED'"))
	}
	s.startWorker()
	// Temporal starts the activity again when the attempt of the dead worker has timed out.
	require.Eventually(t, func() bool { return s.rows("status = 'RESOLVED' AND retry_count = 1") == 1 }, 2*time.Minute, 50*time.Millisecond)
	close(requests)
	repeated := 0
	for again := range requests {
		require.Equal(t, first.Get("Idempotency-Key"), again.Get("Idempotency-Key"))
		require.Equal(t, first.Get("Webhook-Id"), again.Get("Webhook-Id"))
		repeated++
	}
	require.NotEmpty(t, first.Get("Idempotency-Key"))
	t.Logf("%d requests were repeated", repeated)
	if !answersFirst {
		require.Positive(t, repeated)
	}
}
