package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
)

const singleRetriesPath = "/api/v1/retries"

// singleRetries are the entries of the list.
func (w *world) singleRetries(query string, headers ...string) (items []map[string]any) {
	w.t.Helper()
	got := w.call(http.MethodGet, singleRetriesPath+query, headers...)
	require.Equal(w.t, http.StatusOK, got.status, got.body)
	for _, item := range got.field(w.t, "retries").([]any) {
		items = append(items, item.(map[string]any))
	}
	return items
}

func TestSingleRetriesAreListedWhileTheyRunAndAfterwards(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.TemporalUI = "http://127.0.0.1:8233" })
	require.Equal(t, `{"retries":[],"pagination":{"page_size":20,"has_next":false,"next_cursor":null}}`, w.call(http.MethodGet, singleRetriesPath).body)
	ids := w.add(2)
	w.retries.fail(&dlq.DeliveryError{Category: dlq.CategoryTransient, Err: http.ErrHandlerTimeout})
	require.Equal(t, http.StatusOK, w.call(http.MethodPost, retryPath(ids[0])).status)
	w.retries.deliver = nil
	w.retries.hold()
	started := w.json(http.MethodPost, retryPath(ids[1]), `{"reason":"the bank is back"}`, "Prefer: respond-async")
	require.Equal(t, http.StatusAccepted, started.status, started.body)
	require.Equal(t, http.StatusAccepted, w.call(http.MethodPost, retryPath(ids[1]), "Prefer: respond-async").status)
	require.Eventually(t, func() bool { return w.status(ids[1]) == "RETRYING" }, 5*time.Second, time.Millisecond)
	require.Equal(t, http.StatusOK, w.call(http.MethodPost, "/api/v1/dlq/stock.dlq/retry-all").status, "a job is not in the list")

	running := w.call(http.MethodGet, singleRetriesPath)
	items := w.singleRetries("")
	require.Len(t, items, 3)
	run := started.field(t, "run_id").(string)
	for i, joined := range []bool{true, false} {
		require.Equal(t, []any{ids[1].String(), "RUNNING", joined, nil, nil}, []any{items[i]["message_id"], items[i]["state"], items[i]["joined"], items[i]["error"], items[i]["ended_at"]})
		require.Equal(t, map[string]any{"workflow_id": started.field(t, "workflow_id"), "run_id": run, "url": started.field(t, "workflow_url")}, items[i]["workflow"])
	}
	require.Equal(t, []any{"the bank is back", "anonymous", "orders.dlq.v1", nil}, []any{items[1]["reason"], items[1]["actor"], items[1]["topic"], items[1]["target_topic"]})
	require.Equal(t, []any{ids[0].String(), "FAILED", http.ErrHandlerTimeout.Error()}, []any{items[2]["message_id"], items[2]["state"], items[2]["error"]})
	require.NotNil(t, items[2]["ended_at"])

	w.retries.release()
	require.Eventually(t, func() bool { return w.status(ids[1]) == "RESOLVED" }, 5*time.Second, time.Millisecond)
	ended := w.call(http.MethodGet, singleRetriesPath, "If-None-Match: "+running.header.Get("ETag"))
	require.Equal(t, http.StatusOK, ended.status)
	for _, item := range w.singleRetries("")[:2] {
		require.Equal(t, "SUCCEEDED", item["state"])
		require.NotNil(t, item["ended_at"])
	}
	require.Equal(t, http.StatusNotModified, w.call(http.MethodGet, singleRetriesPath, "If-None-Match: "+ended.header.Get("ETag")).status)
	first := w.call(http.MethodGet, singleRetriesPath+"?page_size=2")
	next := w.singleRetries("?page_size=2&cursor=" + first.field(t, "pagination", "next_cursor").(string))
	require.Len(t, next, 1)
	require.Equal(t, ids[0].String(), next[0]["message_id"])
}

func TestASingleRetryIsShownOnlyToThoseWhoMaySeeItsTopic(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	require.Equal(t, http.StatusOK, w.call(http.MethodPost, retryPath(w.add(1)[0]), bearer("operator/orders.*")).status)
	require.Equal(t, http.StatusOK, w.call(http.MethodPost, retryPath(w.add(1)[0]), bearer("admin")).status)
	require.Empty(t, w.singleRetries("", bearer("viewer/stock.*")))
	require.Len(t, w.singleRetries("", bearer("viewer/orders.*")), 2)
	require.Len(t, w.singleRetries("?topic=orders.dlq.v1", bearer("viewer")), 2)
	require.Empty(t, w.singleRetries("?topic=stock.dlq", bearer("viewer")))
	own := w.singleRetries("?actor=admin", bearer("viewer"))
	require.Len(t, own, 1)
	require.Equal(t, "admin", own[0]["actor"])
}

func TestSingleRetriesRefuseUnknownParametersAndTheCursorOfAnotherList(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.add(1)
	for range 2 {
		w.call(http.MethodPost, retryAllPath)
	}
	cursor := w.call(http.MethodGet, "/api/v1/audit?page_size=1").field(t, "pagination", "next_cursor").(string)
	for _, query := range []string{"?page_size=0", "?topic=a%20b", "?subject=ann", "?cursor=x", "?cursor=" + cursor, "?from=2026-02-20T00:00:00Z&to=2026-02-20T00:00:00Z"} {
		requireError(t, w.call(http.MethodGet, singleRetriesPath+query), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	}
}
