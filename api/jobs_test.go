package api_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
)

const (
	jobsPath  = "/api/v1/jobs"
	plansPath = "/api/v1/plans"
)

func TestBulkRetriesAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	w := start(t)
	require.Equal(t, `{"jobs":[],"pagination":{"page_size":20,"has_next":false,"next_cursor":null}}`, w.call(http.MethodGet, jobsPath).body)
	var ids []string
	for range 3 {
		ids = append(ids, w.call(http.MethodPost, retryAllPath).field(t, "job_id").(string))
	}
	listed := w.call(http.MethodGet, jobsPath+"?page_size=2").field(t, "jobs").([]any)
	require.Len(t, listed, 2)
	require.Equal(t, ids[2], listed[0].(map[string]any)["id"])
	require.Equal(t, ids[1], listed[1].(map[string]any)["id"])
	for _, query := range []string{"page_size=0", "page_size=201", "page_size=x", "page=1", "kind=send", "state=ended", "cursor=x",
		"from=2026-02-20T10:30:00Z&to=2026-02-20T10:30:00Z"} {
		requireError(t, w.call(http.MethodGet, jobsPath+"?"+query), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	}
}

func TestTheListOfJobsIsFilteredAndPaged(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	start := func(token, body string) string {
		w.add(1)
		return w.json(http.MethodPost, jobsPath, body, bearer(token)).field(t, "id").(string)
	}
	began := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	retry := start("admin", `{"kind":"retry","topic":"orders.dlq.v1"}`)
	dead := start("operator", `{"kind":"dead","topic":"orders.v1"}`)
	w.retries.hold()
	running := start("admin", `{"kind":"retry","topic":"orders.v1"}`)
	other := start("admin", `{"kind":"delete","topic":"stock.dlq.v1"}`)
	list := func(query, token string) (ids []string, next any) {
		got := w.call(http.MethodGet, jobsPath+"?"+query, bearer(token))
		require.Equal(t, http.StatusOK, got.status, got.body)
		for _, job := range got.field(t, "jobs").([]any) {
			ids = append(ids, job.(map[string]any)["id"].(string))
		}
		return ids, got.field(t, "pagination", "next_cursor")
	}
	for query, want := range map[string][]string{
		"": {other, running, dead, retry}, "kind=dead": {dead}, "kind=retry": {running, retry}, "topic=orders.v1": {running, dead},
		"state=RUNNING": {other, running}, "state=FAILED": nil, "kind=retry&state=COMPLETED": {retry}, "actor=operator": {dead}, "actor=nobody": nil,
		"from=" + began: {other, running, dead, retry}, "to=" + began: nil,
	} {
		got, next := list(query, "admin")
		require.Equal(t, want, got, query)
		require.Nil(t, next)
	}
	var all []string
	for query, next := "page_size=1", any(""); next != nil; query = fmt.Sprint("page_size=1&cursor=", next) {
		var page []string
		page, next = list(query, "operator/orders.*") // this token does not see the job of stock.dlq.v1
		require.LessOrEqual(t, len(page), 1)
		all = append(all, page...)
	}
	require.Equal(t, []string{retry}, all, "jobs of an original topic may have messages of other topics")
}

func TestAJobThatChangesMessagesCanOnlyBeCancelled(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.retries.hold()
	w.add(3)
	path := w.json(http.MethodPost, jobsPath, `{"kind":"delete","topic":"orders.dlq.v1"}`, "Prefer: respond-async").header.Get("Location")
	for _, call := range [][3]string{{http.MethodPost, "/pause", ""}, {http.MethodPost, "/resume", ""}, {http.MethodPatch, "", `{"rate_limit":1}`}} {
		message, _ := requireError(t, w.json(call[0], path+call[1], call[2]), http.StatusConflict, "SYS_DLQ_CONFLICT")
		require.Equal(t, "a job of the kind delete can only be cancelled", message)
	}
	require.Equal(t, "RUNNING", w.call(http.MethodGet, path).field(t, "state"))
	require.NotContains(t, fmt.Sprint(w.operations()), "pause")
}

func TestBulkRetryTellsItsResult(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.TemporalUI = "http://127.0.0.1:8233" })
	w.add(3)
	id := w.call(http.MethodPost, retryAllPath).field(t, "job_id").(string)
	got := w.call(http.MethodGet, jobsPath+"/"+id)
	require.Equal(t, "COMPLETED", got.field(t, "state"))
	require.EqualValues(t, 3, got.field(t, "retried"))
	require.EqualValues(t, 1, got.field(t, "progress"))
	require.Nil(t, got.field(t, "estimated_end"))
	require.NotNil(t, got.field(t, "ended_at"))
	require.Greater(t, got.field(t, "per_second"), 0.0)
	require.Equal(t, map[string]any{
		"workflow_id": "retry-all-" + id, "job_id": id,
		"url": "http://127.0.0.1:8233/namespaces/default/workflows/retry-all-" + id,
	}, got.field(t, "workflow"))
}

func TestBulkRetryReturnsErrors(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, call := range [][3]string{{"GET", "", ""}, {"PATCH", "", `{"rate_limit":1}`}, {"POST", "/pause", ""}, {"POST", "/resume", ""}, {"POST", "/cancel", ""}} {
		message, _ := requireError(t, w.json(call[0], jobsPath+"/"+someID+call[1], call[2]), http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
		require.Equal(t, "job not found: "+someID, message)
		message, _ = requireError(t, w.json(call[0], jobsPath+"/x"+call[1], call[2]), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, "invalid job id: x", message)
	}
}
