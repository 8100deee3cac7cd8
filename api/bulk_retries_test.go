package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
)

const bulksPath = "/api/v1/bulk-retries"

func TestBulkRetriesAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	w := start(t)
	require.Equal(t, `{"bulk_retries":[]}`, w.call(http.MethodGet, bulksPath).body)
	var ids []string
	for range 3 {
		ids = append(ids, w.call(http.MethodPost, retryAllPath).field(t, "bulk_retry_id").(string))
	}
	listed := w.call(http.MethodGet, bulksPath+"?limit=2").field(t, "bulk_retries").([]any)
	require.Len(t, listed, 2)
	require.Equal(t, ids[2], listed[0].(map[string]any)["id"])
	require.Equal(t, ids[1], listed[1].(map[string]any)["id"])
	for _, query := range []string{"limit=0", "limit=201", "limit=x", "page=1"} {
		requireError(t, w.call(http.MethodGet, bulksPath+"?"+query), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	}
}

func TestBulkRetryTellsItsResult(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.TemporalUI = "http://127.0.0.1:8233" })
	w.add(3)
	id := w.call(http.MethodPost, retryAllPath).field(t, "bulk_retry_id").(string)
	got := w.call(http.MethodGet, bulksPath+"/"+id)
	require.Equal(t, "COMPLETED", got.field(t, "state"))
	require.EqualValues(t, 3, got.field(t, "retried"))
	require.EqualValues(t, 1, got.field(t, "progress"))
	require.Nil(t, got.field(t, "estimated_end"))
	require.NotNil(t, got.field(t, "ended_at"))
	require.Greater(t, got.field(t, "per_second"), 0.0)
	require.Equal(t, map[string]any{
		"workflow_id": "retry-all-" + id, "bulk_retry_id": id,
		"url": "http://127.0.0.1:8233/namespaces/default/workflows/retry-all-" + id,
	}, got.field(t, "workflow"))
}

func TestBulkRetryReturnsErrors(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, call := range [][3]string{{"GET", "", ""}, {"PATCH", "", `{"rate_limit":1}`}, {"POST", "/pause", ""}, {"POST", "/resume", ""}, {"POST", "/cancel", ""}} {
		message, _ := requireError(t, w.json(call[0], bulksPath+"/"+someID+call[1], call[2]), http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
		require.Equal(t, "bulk retry not found: "+someID, message)
		message, _ = requireError(t, w.json(call[0], bulksPath+"/x"+call[1], call[2]), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, "invalid bulk retry id: x", message)
	}
}
