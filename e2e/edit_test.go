package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"dlqmanager/internal/kafkatest"
)

// editing is a system with dead letters that are still PENDING.
type editing struct {
	*system
	cluster *kfake.Cluster
	worker  *program
	api     *program
}

func newEditing(t *testing.T, messages int) *editing {
	t.Helper()
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	e := &editing{system: s, cluster: cluster}
	s.produceDeadLetters(cluster, messages)
	e.worker = s.startWorker()
	e.api = s.startAPI()
	s.eventually("all are stored", func() bool { return s.pending() == messages })
	return e
}

// edit sends an edited copy with the value, and returns the answer.
func (e *editing) edit(id, value string) (status int, answer map[string]any) {
	e.t.Helper()
	return e.post("/api/v1/dlq/messages/"+id+"/retry", fmt.Sprintf(`{"value": %q}`, value))
}

// post sends a JSON body.
func (e *editing) post(path, body string, headers ...string) (status int, answer map[string]any) {
	e.t.Helper()
	return e.send(http.MethodPost, path, strings.NewReader(body), append(headers, "Content-Type", "application/json")...)
}

// values returns the values in the topic, with the number of their records.
func (e *editing) values() map[string]int {
	e.t.Helper()
	values := map[string]int{}
	for _, r := range recordsOf(e.t, e.cluster, e.topic) {
		values[string(r.Value)]++
	}
	return values
}

// Other systems had the following bugs. The message and its edited copy were both sent. A second edit was
// silently dropped. The target was empty after an earlier retry. The original message never ended. A
// delivery was never shown. A bulk retry and a single retry sent the same message.
func TestEdits(t *testing.T) {
	t.Parallel()
	const messages = 200
	e := newEditing(t, messages+4)
	ids := e.ids()

	e.part("an edit sends the copy and never the original", func(t *testing.T) {
		status, answer := e.edit(ids[0], "mended-0")
		require.Equal(t, http.StatusOK, status, answer)
		require.Equal(t, "RESOLVED", answer["status"])
		status, answer = e.post("/api/v1/jobs", fmt.Sprintf(`{"kind": "retry", "topic": %q, "ids": [%q]}`, e.dlqTopic, ids[0]), "Prefer", "wait=30")
		require.Equal(t, http.StatusOK, status, answer)
		require.Zero(t, count(answer, "retried"), "nothing is left to send")
		require.Equal(t, map[string]int{`"mended-0"`: 1}, e.values())
	})
	e.part("a second edit is refused and names the copy", func(t *testing.T) {
		status, first := e.edit(ids[1], "mended-1")
		require.Equal(t, http.StatusOK, status, first)
		status, second := e.edit(ids[1], "again")
		require.Equal(t, http.StatusConflict, status)
		require.Contains(t, fmt.Sprint(second), first["id"])
		require.Equal(t, map[string]int{`"mended-0"`: 1, `"mended-1"`: 1}, e.values())
	})
	e.part("an edit after a failed retry has its target", func(t *testing.T) {
		_, err := e.pool.Exec(t.Context(), `UPDATE dlq.dlq_messages SET retry_count = 1 WHERE id = $1`, ids[2])
		require.NoError(t, err)
		status, answer := e.edit(ids[2], "mended-2")
		require.Equal(t, http.StatusOK, status, answer)
		require.Equal(t, 1, e.values()[`"mended-2"`])
		copied := e.get("/api/v1/dlq/messages/" + answer["id"].(string))
		require.Equal(t, e.topic, copied["original_topic"])
		require.EqualValues(t, 2, copied["retry_count"], "with the earlier retry")
	})
	e.part("an edit ends its original and shows the delivery", func(t *testing.T) {
		_, answer := e.edit(ids[3], "mended-3")
		original := e.get("/api/v1/dlq/messages/" + ids[3])
		require.Equal(t, []any{"RESOLVED", "replaced", answer["id"]}, []any{original["status"], original["resolution"], original["replaced_by"]})
		copied := e.get("/api/v1/dlq/messages/" + answer["id"].(string))
		require.Equal(t, []any{"RESOLVED", "delivered", ids[3]}, []any{copied["status"], copied["resolution"], copied["edited_from"]})
		require.NotNil(t, copied["target"])
		hops := e.get("/api/v1/dlq/messages/" + ids[3] + "/chain")["hops"].([]any)
		require.Len(t, hops, 2)
		require.Equal(t, "delivered", hops[1].(map[string]any)["attempts"].([]any)[0].(map[string]any)["outcome"])
	})
	e.part("a bulk retry and edits at once send each message once", func(t *testing.T) { e.editDuringBulkRetry(t, ids[4:]) })
	e.part("a worker that was killed sends the copy later", func(t *testing.T) {
		e.produceDeadLetters(e.cluster, 1)
		e.eventually("it is stored", func() bool { return e.pending() == 1 })
		id := e.ids()[len(e.ids())-1]
		e.worker.kill(t)
		delivered := e.rows("resolution = 'delivered'")
		status, answer := e.post("/api/v1/dlq/messages/"+id+"/retry", `{"value": "late"}`, "Prefer", "respond-async")
		require.Equal(t, http.StatusAccepted, status, answer)
		require.Equal(t, 1, e.rows("resolution = 'replaced' AND id = '"+id+"'"))
		e.startWorker()
		e.eventually("the copy is delivered", func() bool { return e.rows("resolution = 'delivered'") == delivered+1 })
		require.Equal(t, 1, e.values()[`"late"`])
	})
	e.part("an API that is killed leaves each edit whole", e.editWhileTheAPIIsKilled)
}

// part runs a part of the test, unless an earlier part has failed.
func (e *editing) part(name string, test func(t *testing.T)) {
	if !e.t.Failed() {
		e.t.Run(name, test)
	}
}

// editWhileTheAPIIsKilled edits messages until the API is gone. Then each message is either replaced by a
// copy or unchanged, and a bulk retry sends the remaining messages.
func (e *editing) editWhileTheAPIIsKilled(t *testing.T) {
	const messages = 60
	before := len(e.values())
	e.produceDeadLetters(e.cluster, messages)
	e.eventually("all are stored", func() bool { return e.pending() == messages })
	ids := e.ids()[len(e.ids())-messages:]
	var wait sync.WaitGroup
	for w := range 4 {
		wait.Go(func() {
			for i := w; i < messages; i += 4 {
				if i == messages/2 {
					_ = e.api.Process.Kill()
				}
				request, err := http.NewRequest(http.MethodPost, e.base+"/api/v1/dlq/messages/"+ids[i]+"/retry", strings.NewReader(`{"value": "kill-`+ids[i]+`"}`))
				if err != nil {
					return
				}
				request.Header.Set("Content-Type", "application/json")
				if answer, err := http.DefaultClient.Do(request); err == nil {
					_ = answer.Body.Close()
				}
			}
		})
	}
	wait.Wait()
	e.eventually("no retry runs", func() bool { return e.rows("status = 'RETRYING'") == 0 })
	const lost = `SELECT count(*) FROM dlq.dlq_messages o WHERE o.resolution = 'replaced' AND NOT EXISTS (
		SELECT FROM dlq.dlq_edits e JOIN dlq.dlq_messages c ON c.id = e.copy_id WHERE e.original_id = o.id)`
	var withoutCopy int
	require.NoError(t, e.pool.QueryRow(t.Context(), lost).Scan(&withoutCopy))
	require.Zero(t, withoutCopy)
	e.startAPI()
	status, answer := e.post("/api/v1/dlq/"+e.dlqTopic+"/retry-all", "", "Prefer", "wait=60")
	require.Equal(t, http.StatusOK, status, answer)
	require.Zero(t, e.rows("status <> 'RESOLVED'"))
	sent := 0
	for _, n := range e.values() {
		sent += n
	}
	require.Equal(t, before+messages, sent, "each message, or its copy, once")
}

func (e *editing) editDuringBulkRetry(t *testing.T, ids []string) {
	t.Helper()
	before := len(e.values())
	status, job := e.post("/api/v1/jobs", fmt.Sprintf(`{"kind": "retry", "topic": %q, "rate_limit": 50}`, e.dlqTopic), "Prefer", "respond-async")
	require.Equal(t, http.StatusAccepted, status, job)
	var edited atomic.Int64
	var wait sync.WaitGroup
	for w := range 4 {
		wait.Go(func() {
			for i := len(ids) - 1 - w; i >= 0; i -= 4 { // in the reverse order of the job
				if status, _ := e.edit(ids[i], "bulk-"+ids[i]); status < http.StatusBadRequest {
					edited.Add(1)
				}
			}
		})
	}
	wait.Wait()
	e.eventually("the job ends", func() bool {
		_, job = e.call(http.MethodGet, "/api/v1/jobs/"+job["id"].(string))
		return job["state"] == "COMPLETED" && e.rows("status <> 'RESOLVED'") == 0
	})
	copies := int(edited.Load())
	require.Positive(t, copies)
	require.Positive(t, count(job, "retried"))
	require.Equal(t, len(ids), copies+count(job, "retried"))
	values, mended := e.values(), 0
	require.Len(t, values, before+len(ids))
	for value, n := range values {
		require.Equal(t, 1, n, value)
		if strings.HasPrefix(value, `"bulk-`) {
			mended++
		}
	}
	require.Equal(t, copies, mended)
}
