package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

const (
	markAllDead = `{"kind":"dead","topic":"orders.dlq.v1"}`
)

func revivePath(id dlq.ID) string { return "/api/v1/dlq/messages/" + id.String() + "/revive" }

func (w *world) addDead(n int, change ...func(*dlq.Arrival)) []dlq.ID {
	w.t.Helper()
	ids := w.add(n, change...)
	for _, id := range ids {
		_, err := w.store.MarkDead(w.t.Context(), nil, id)
		require.NoError(w.t, err)
	}
	return ids
}

func TestReviveMakesADeadMessagePending(t *testing.T) {
	t.Parallel()
	w := start(t)
	ids := w.addDead(2)
	for i, body := range []string{"", `{"reason":"the consumer is repaired"}`} {
		id := ids[i].String()
		got := w.json(http.MethodPost, revivePath(ids[i]), body)
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Equal(t, `{"id":"`+id+`","status":"PENDING","message":"message `+id+` revived","retry_count":0,"max_retries":3}`, got.body)
	}
	require.Equal(t, "the consumer is repaired", w.operations()[0]["reason"])

	message, _ := requireError(t, w.call(http.MethodPost, revivePath(ids[0])), http.StatusConflict, "SYS_DLQ_CONFLICT")
	require.Equal(t, "message cannot be revived: only a DEAD message can be revived, and its status is PENDING", message)
	requireError(t, w.call(http.MethodPost, "/api/v1/dlq/messages/"+someID+"/revive"), http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
	requireError(t, w.call(http.MethodPost, "/api/v1/dlq/messages/x/revive"), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
}

func TestReviveRefusesAnInvalidBodyAndChangesNothing(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.addDead(1)[0]
	for body, field := range map[string]string{
		`{"reasons":"x"}`: "reasons", `{"reason":null}`: "reason", `{"reason":"` + strings.Repeat("x", 1001) + `"}`: "reason", `[]`: "body",
	} {
		_, fields := requireError(t, w.json(http.MethodPost, revivePath(id), body), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, []string{field}, fields)
	}
	require.Equal(t, "DEAD", w.status(id))
}

func TestCreateBulkChangeAnswers200WhenItEndsInTime(t *testing.T) {
	t.Parallel()
	w := start(t)
	wanted := w.addDead(3, func(a *dlq.Arrival) { a.ErrorMessage = "Unknown currency" })
	other := w.addDead(1)[0]
	got := w.json(http.MethodPost, jobsPath, `{"kind":"revive","topic":"orders.dlq.v1","error":"currency","reason":"repaired"}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, "COMPLETED", got.field(t, "state"))
	require.Equal(t, "revive", got.field(t, "kind"))
	require.EqualValues(t, 3, got.field(t, "matched"))
	require.EqualValues(t, 3, got.field(t, "changed"))
	require.EqualValues(t, 0, got.field(t, "skipped"))
	require.EqualValues(t, 1, got.field(t, "progress"))
	require.Equal(t, "repaired", got.field(t, "request_reason"))
	require.Equal(t, "currency", got.field(t, "filters", "error"))
	for _, id := range wanted {
		require.Equal(t, "PENDING", w.status(id))
	}
	require.Equal(t, "DEAD", w.status(other))
	path := jobsPath + "/" + got.field(t, "id").(string)
	require.Equal(t, path, got.header.Get("Location"))
	require.Equal(t, got.body, w.call(http.MethodGet, path).body)
	require.Equal(t, `{"jobs":[`+got.body+`],"pagination":{"page_size":20,"has_next":false,"next_cursor":null}}`, w.call(http.MethodGet, jobsPath).body)
	requireError(t, w.call(http.MethodPost, path+"/cancel"), http.StatusConflict, "SYS_DLQ_CONFLICT")
}

func TestCreateBulkChangeAnswers202WhileItRuns(t *testing.T) {
	t.Parallel()
	w := start(t, withUI)
	w.retries.hold()
	w.add(3)
	got := w.json(http.MethodPost, jobsPath, markAllDead, "Prefer: respond-async")
	require.Equal(t, http.StatusAccepted, got.status, got.body)
	require.Equal(t, "respond-async", got.header.Get("Preference-Applied"))
	require.Equal(t, "RUNNING", got.field(t, "state"))
	require.EqualValues(t, 3, got.field(t, "matched"))
	require.EqualValues(t, 0, got.field(t, "changed"))
	id := got.field(t, "id").(string)
	require.Equal(t, "change-all-"+id, got.field(t, "workflow", "workflow_id"))
	require.Contains(t, got.field(t, "workflow", "url"), "/workflows/change-all-"+id)
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, got.header.Get("Location")).status)

	joined := w.json(http.MethodPost, jobsPath, `{"topic":"orders.dlq.v1","kind":"dead","reason":"another"}`, "Prefer: respond-async")
	require.Equal(t, id, joined.field(t, "id"))
	message, fields := requireError(t, w.json(http.MethodPost, jobsPath, `{"kind":"delete","topic":"orders.dlq.v1"}`),
		http.StatusConflict, "SYS_DLQ_CONFLICT")
	require.Contains(t, message, id)
	require.Equal(t, []string{"job_id"}, fields)
	require.Equal(t, 1, w.retries.starts())
}

func TestACancelledBulkChangeChangesNothingMore(t *testing.T) {
	t.Parallel()
	w := start(t, noWait)
	ids := w.add(2)
	w.retries.hold()
	path := w.json(http.MethodPost, jobsPath, markAllDead).header.Get("Location")
	requireError(t, w.json(http.MethodPost, path+"/cancel", `{"reasons":"x"}`), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	got := w.call(http.MethodPost, path+"/cancel")
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, "CANCELLED", got.field(t, "state"))
	require.Equal(t, "cancelled by an operator", got.field(t, "reason"))
	require.EqualValues(t, 2, got.field(t, "skipped"))
	require.Equal(t, "PENDING", w.status(ids[0]))
	requireError(t, w.call(http.MethodPost, path+"/cancel"), http.StatusConflict, "SYS_DLQ_CONFLICT")
	requireError(t, w.call(http.MethodPost, jobsPath+"/"+someID+"/cancel"), http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
	requireError(t, w.call(http.MethodGet, jobsPath+"/"+someID), http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
}

// A cancellation stops the job in the store first, so it holds even if Temporal does not answer.
func TestABulkChangeIsStoppedWhenTemporalIsUnavailable(t *testing.T) {
	t.Parallel()
	w := start(t, noWait)
	ids := w.add(2)
	w.retries.hold()
	path := w.json(http.MethodPost, jobsPath, markAllDead).header.Get("Location")
	w.retries.unavailable = dlq.ErrUnavailable
	got := w.call(http.MethodPost, path+"/cancel")
	require.Equal(t, http.StatusAccepted, got.status, got.body)
	require.Equal(t, "CANCELLING", got.field(t, "state"))
	w.retries.unavailable = nil
	w.retries.release() // the workflow continues
	require.Eventually(t, func() bool { return w.call(http.MethodGet, path).field(t, "ended_at") != nil }, 20*time.Second, time.Millisecond)
	require.Equal(t, "PENDING", w.status(ids[0]))
	require.EqualValues(t, 0, w.call(http.MethodGet, path).field(t, "changed"))
}

func TestABulkChangeWithoutAWorkflowIsStartedByTheNextCallOrCancelled(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.add(2)
	w.retries.unavailable = dlq.ErrUnavailable
	requireError(t, w.json(http.MethodPost, jobsPath, markAllDead), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	w.retries.unavailable = nil
	waiting := w.call(http.MethodGet, jobsPath).field(t, "jobs").([]any)[0].(map[string]any)
	require.Equal(t, "RUNNING", waiting["state"])
	got := w.json(http.MethodPost, jobsPath, markAllDead)
	require.Equal(t, waiting["id"], got.field(t, "id"))
	require.EqualValues(t, 2, got.field(t, "changed"))

	w.retries.unavailable = dlq.ErrUnavailable
	requireError(t, w.json(http.MethodPost, jobsPath, markAllDead), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	w.retries.unavailable = nil
	waiting = w.call(http.MethodGet, jobsPath).field(t, "jobs").([]any)[0].(map[string]any)
	got = w.call(http.MethodPost, fmt.Sprintf("%s/%s/cancel", jobsPath, waiting["id"]))
	require.Equal(t, "CANCELLED", got.field(t, "state"))
	require.Contains(t, got.field(t, "reason"), "no running workflow")
}

func TestABulkChangeWhoseWorkflowWasTerminatedIsClosedAndNotJoined(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.add(2)
	w.retries.terminate(true)
	got := w.json(http.MethodPost, jobsPath, markAllDead) // the workflow is terminated during the call
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, "FAILED", got.field(t, "state"))
	left := w.json(http.MethodPost, jobsPath, markAllDead, "Prefer: respond-async") // the workflow is terminated after the call
	require.Equal(t, http.StatusAccepted, left.status, left.body)
	w.retries.terminate(false)
	require.Eventually(t, func() bool {
		got = w.json(http.MethodPost, jobsPath, markAllDead)
		return got.field(t, "state") == "COMPLETED" && got.field(t, "id") != left.field(t, "id")
	}, 20*time.Second, time.Millisecond)
	require.Equal(t, "FAILED", w.call(http.MethodGet, left.header.Get("Location")).field(t, "state"))
}

func TestAPlanOfABulkChangeChangesNothing(t *testing.T) {
	t.Parallel()
	w := start(t)
	dead := w.addDead(1)[0]
	w.add(11)
	got := w.json(http.MethodPost, plansPath, `{"kind":"delete","topic":"orders.v1"}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Empty(t, got.header.Get("Location"))
	require.EqualValues(t, 12, got.field(t, "matched"))
	require.EqualValues(t, 11, got.field(t, "by_status", "PENDING"))
	sample := got.field(t, "sample").([]any)
	require.Len(t, sample, 10)
	require.Equal(t, dead.String(), sample[0].(map[string]any)["id"])
	got = w.json(http.MethodPost, plansPath, `{"kind":"revive","topic":"orders.v1"}`)
	require.EqualValues(t, 1, got.field(t, "matched"))
	require.EqualValues(t, 11, got.field(t, "skipped"))
	require.Contains(t, w.call(http.MethodGet, jobsPath).body, `"jobs":[]`)
	require.Zero(t, w.retries.starts())
	require.Equal(t, "DEAD", w.status(dead))
}

func TestCreateBulkChangeRefusesInvalidRequests(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.add(1)
	for body, want := range map[string][]string{
		``:                                    {"kind", "topic"}, // an empty body counts as an object without fields
		`{"kind":"dead"}`:                     {"topic"},
		`{"topic":"orders"}`:                  {"kind"},
		`{"kind":"explode","topic":"orders"}`: {"kind"},
		`{"kind":null,"topic":"orders"}`:      {"kind"},
		`{"kind":"Dead","topic":"a/b"}`:       {"topic", "kind"},
		`{"kind":"dead","topic":"orders","rate_limit":5}`:                   {"rate_limit"},
		`{"kind":"dead","topic":"orders","errors":"x"}`:                     {"errors"},
		`{"kind":"dead","topic":"orders","error":""}`:                       {"error"},
		`{"kind":"dead","topic":"orders","ids":["x"]}`:                      {"ids[0]"},
		`{"kind":"dead","topic":"orders","ids":[]}`:                         {"ids"},
		`{"kind":"dead","topic":"orders","status":["DEAD","RESOLVED"]}`:     {"status"},
		`{"kind":"revive","topic":"orders","status":"PENDING"}`:             {"status"},
		`{"kind":"delete","topic":"orders","status":"RETRYING"}`:            {"status"},
		`{"kind":"revive","topic":"orders","status":"PENDING","dry_run":1}`: {"dry_run", "status"},
	} {
		got := w.json(http.MethodPost, jobsPath, body)
		_, fields := requireError(t, got, http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.ElementsMatch(t, want, fields, body)
	}
	got := w.json(http.MethodPost, jobsPath, `{"kind":"delete","topic":"orders","status":"RETRYING"}`)
	require.Contains(t, got.body, "delete changes messages that are PENDING, RESOLVED or DEAD")
	require.Zero(t, w.retries.starts())
	for _, limit := range []string{"0", "201", "x"} {
		requireError(t, w.call(http.MethodGet, jobsPath+"?page_size="+limit), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	}
}
