package api_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
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
		"workflow_id": "retry-all-orders.dlq.v1", "run_id": id,
		"url": "http://127.0.0.1:8233/namespaces/default/workflows/retry-all-orders.dlq.v1/" + id + "/history",
	}, got.field(t, "workflow"))
}

// oneBulk is a store with one bulk retry.
type oneBulk struct {
	api.Store
	bulk dlq.BulkRetry
}

func (o *oneBulk) Bulk(context.Context, dlq.ID) (dlq.BulkRetry, error) { return o.bulk, nil }

func TestBulkRetryTellsProgressRateAndEstimatedEnd(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ended := now.Add(-60 * time.Second)
	for name, example := range map[string]struct {
		bulk      dlq.BulkRetry
		progress  float64
		perSecond float64
		left      time.Duration // until the estimated end; negative when there is none
	}{
		"running, 1 of 4 in 100 s": {dlq.BulkRetry{State: dlq.BulkRunning, Matched: 4000, StartedAt: now.Add(-100 * time.Second),
			Counts: dlq.BulkCounts{Retried: 900, Failed: 50, Dead: 50}}, 0.25, 10, 300 * time.Second},
		"what was skipped is done, but was not sent": {dlq.BulkRetry{State: dlq.BulkRunning, Matched: 4000, StartedAt: now.Add(-100 * time.Second),
			Counts: dlq.BulkCounts{Retried: 1000, Skipped: 2000}}, 0.75, 10, 100 * time.Second},
		"nothing sent yet": {dlq.BulkRetry{State: dlq.BulkRunning, Matched: 4000, StartedAt: now.Add(-100 * time.Second)}, 0, 0, -1},
		"nothing matched":  {dlq.BulkRetry{State: dlq.BulkRunning, StartedAt: now.Add(-100 * time.Second)}, 0, 0, -1},
		"started in our future": {dlq.BulkRetry{State: dlq.BulkRunning, Matched: 2, StartedAt: now.Add(time.Hour),
			Counts: dlq.BulkCounts{Retried: 1}}, 0.5, 0, -1},
		"cancelled after 40 s": {dlq.BulkRetry{State: dlq.BulkCancelled, Matched: 4000, StartedAt: now.Add(-100 * time.Second), EndedAt: &ended,
			Counts: dlq.BulkCounts{Retried: 400, Skipped: 3600}}, 1, 10, -1},
		"nothing matched, completed": {dlq.BulkRetry{State: dlq.BulkCompleted, StartedAt: now.Add(-100 * time.Second), EndedAt: &ended}, 1, 0, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			example.bulk.ID, example.bulk.WorkflowID, example.bulk.UpdatedAt = dlq.NewID(), "retry-all-orders.dlq.v1", now
			w := start(t, with(&oneBulk{bulk: example.bulk}))
			got := w.call(http.MethodGet, bulksPath+"/"+example.bulk.ID.String())
			require.InDelta(t, example.progress, got.field(t, "progress"), 0.0001)
			require.InDelta(t, example.perSecond, got.field(t, "per_second"), example.perSecond*0.2)
			if example.left < 0 {
				require.Nil(t, got.field(t, "estimated_end"))
				return
			}
			end, err := time.Parse(time.RFC3339, got.field(t, "estimated_end").(string))
			require.NoError(t, err)
			require.WithinDuration(t, now.Add(example.left), end, example.left/4)
		})
	}
}

func TestBulkRetryReturnsErrors(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, call := range [][2]string{{"GET", ""}, {"POST", "/cancel"}} {
		message, _ := requireError(t, w.call(call[0], bulksPath+"/"+someID+call[1]), http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
		require.Equal(t, "bulk retry not found: "+someID, message)
		message, _ = requireError(t, w.call(call[0], bulksPath+"/x"+call[1]), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, "invalid bulk retry id: x", message)
	}
}

func TestCancelStopsABulkRetryAndLeavesNothingRetrying(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.retries.hold()
	ids := w.add(5)
	id := w.call(http.MethodPost, retryAllPath, "Prefer: respond-async").field(t, "bulk_retry_id").(string)
	got := w.call(http.MethodPost, bulksPath+"/"+id+"/cancel")
	require.Equal(t, http.StatusAccepted, got.status, got.body)
	require.Equal(t, bulksPath+"/"+id, got.header.Get("Location"))
	require.Equal(t, "CANCELLED", got.field(t, "state"))
	require.EqualValues(t, 5, got.field(t, "skipped"))
	for _, id := range ids {
		require.Equal(t, "PENDING", w.status(id))
	}
	message, _ := requireError(t, w.call(http.MethodPost, bulksPath+"/"+id+"/cancel"), http.StatusConflict, "SYS_DLQ_CONFLICT")
	require.Equal(t, "bulk retry has already ended: state=CANCELLED", message)
}

func TestCancelSaysWhenTheWorkflowIsGone(t *testing.T) {
	t.Parallel()
	bulk := dlq.BulkRetry{ID: dlq.NewID(), WorkflowID: "retry-all-orders.dlq.v1", State: dlq.BulkRunning, StartedAt: time.Now(), UpdatedAt: time.Now()}
	w := start(t, with(&oneBulk{bulk: bulk})) // its workflow was terminated by hand
	message, _ := requireError(t, w.call(http.MethodPost, bulksPath+"/"+bulk.ID.String()+"/cancel"), http.StatusConflict, "SYS_DLQ_CONFLICT")
	require.Contains(t, message, "no longer has a running workflow")
	w.retries.away = dlq.ErrUnavailable
	requireError(t, w.call(http.MethodPost, bulksPath+"/"+bulk.ID.String()+"/cancel"), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
}
