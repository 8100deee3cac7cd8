package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/internal/kafkatest"
)

// The worker is killed in the middle of a batch, which has locked its messages and not changed them yet.
// PostgreSQL may still commit the batch, because it has all statements of the batch.
func TestABulkChangeSurvivesTheKillOfItsWorker(t *testing.T) {
	t.Parallel()
	s := newSystem(t, kafkatest.FakeCluster(t))
	worker := s.startWorker()
	s.startAPI()
	_, err := s.pool.Exec(t.Context(), `INSERT INTO dlq.dlq_messages (original_topic, dlq_topic, error_message)
		SELECT $1, $2, 'boom' FROM generate_series(1, $3)`, s.topic, s.dlqTopic, messages)
	require.NoError(t, err)
	other, err := s.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = other.Exec(t.Context(), `SELECT FROM dlq.dlq_messages WHERE seq = (SELECT min(seq) + $1 FROM dlq.dlq_messages) FOR UPDATE`, messages/2)
	require.NoError(t, err)

	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/api/v1/jobs",
		bytes.NewBufferString(`{"kind":"dead","topic":"`+s.dlqTopic+`","reason":"a test"}`))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Prefer", "respond-async")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.Equal(t, http.StatusAccepted, response.StatusCode)
	var job map[string]any
	require.NoError(t, json.NewDecoder(response.Body).Decode(&job))
	path := "/api/v1/jobs/" + job["id"].(string)

	s.eventually("a batch waits for the lock", func() bool {
		waiting := 0
		require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting))
		return waiting > 0
	})
	worker.kill(t)
	require.NoError(t, other.Rollback(t.Context()))
	_, job = s.call(http.MethodGet, path)
	require.Equal(t, "RUNNING", job["state"])
	require.Positive(t, count(job, "changed"))
	require.Less(t, count(job, "changed"), messages)

	s.startWorker()
	s.eventually("the job ends", func() bool {
		_, job = s.call(http.MethodGet, path)
		return job["state"] != "RUNNING"
	})
	require.Equal(t, "COMPLETED", job["state"])
	require.Equal(t, []int{messages, messages, 0}, []int{count(job, "matched"), count(job, "changed"), count(job, "skipped")})
	require.Equal(t, messages, s.rows("status = 'DEAD' AND resolution = 'given_up'"))
}
