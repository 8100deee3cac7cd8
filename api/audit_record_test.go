package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
)

// operations reads the audit, the newest row first.
func (w *world) operations(headers ...string) []map[string]any {
	w.t.Helper()
	got := w.call(http.MethodGet, auditPath+"?page_size=200", headers...)
	require.Equal(w.t, http.StatusOK, got.status, got.body)
	return operations(w.t, got)
}

func TestEveryRouteThatChangesSomethingIsRecorded(t *testing.T) {
	t.Parallel()
	for route, permission := range tableOfRoutes(t) {
		if strings.HasPrefix(route, "GET ") {
			continue
		}
		for token, outcomes := range map[string][]string{"admin": {"done", "accepted"}, "viewer": {"refused"}, "admin/stock.*": {"refused"}} {
			t.Run(route+" as "+token, func(t *testing.T) {
				t.Parallel()
				w, before := startWithTokens(t), 0
				got := callIn(t, w, route, token, func() { before = len(w.operations(bearer("admin"))) })
				rows := w.operations(bearer("admin"))
				require.Greater(t, len(rows), before, got.body)
				row := rows[len(rows)-before-1] // the first new one; the end of a job follows
				require.Equal(t, permission, row["action"])
				require.Equal(t, token, row["subject"])
				require.Equal(t, "127.0.0.1", row["address"])
				require.Contains(t, outcomes, row["outcome"])
				require.Equal(t, row["outcome"] == "refused", got.status >= http.StatusBadRequest, got.body)
				require.Equal(t, got.header.Get("X-Request-Id"), row["request_id"])
			})
		}
	}
}

func TestReadsDryRunsAndStrangersAreNotRecorded(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	id := w.add(1)[0].String()
	w.call(http.MethodGet, "/api/v1/dlq/messages/"+id, bearer("admin"))
	w.json(http.MethodPost, bulksPath, `{"topic":"orders.v1","dry_run":true}`, bearer("admin"))
	w.json(http.MethodPost, actionsPath, `{"topic":"orders.v1","action":"dead","dry_run":true}`, bearer("admin"))
	w.call(http.MethodDelete, "/api/v1/dlq/messages/"+id)
	w.call(http.MethodDelete, "/api/v1/dlq/messages/"+id, bearer("nobody"))
	w.call(http.MethodDelete, "/api/v1/dlq/messages/x", bearer("admin")) // malformed
	require.Empty(t, w.operations(bearer("admin")))
}

func TestTheAuditSaysWhatWasAskedForAndWhy(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1)[0].String()
	w.json(http.MethodPost, "/api/v1/dlq/messages/"+id+"/dead", `{"reason":"obsolete"}`)
	w.call(http.MethodDelete, "/api/v1/dlq/messages/"+id+"?reason=the+customer+asked")
	rows := w.operations()
	require.Len(t, rows, 2)
	require.Equal(t, []any{"dlq:message:delete", "the customer asked", id, topicOfAccess, "done"},
		[]any{rows[0]["action"], rows[0]["reason"], rows[0]["target_id"], rows[0]["topic"], rows[0]["outcome"]})
	require.Equal(t, []any{"dlq:message:dead", "obsolete", id, topicOfAccess, "done"},
		[]any{rows[1]["action"], rows[1]["reason"], rows[1]["target_id"], rows[1]["topic"], rows[1]["outcome"]})
}

func TestTheAuditOfABulkRetryHasItsFilterAndItsCountsButNoKey(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.add(2)
	got := w.json(http.MethodPost, bulksPath, `{"topic":"orders.v1","key":"order-1","error":"failed","reason":"fixed in 1.2"}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	rows := w.operations()
	require.Len(t, rows, 2, "its creation and its end")
	created, ended := rows[1], rows[0]
	require.Equal(t, "accepted", created["outcome"])
	require.Equal(t, "fixed in 1.2", created["reason"])
	require.Equal(t, got.field(t, "id"), created["target_id"])
	filter := created["detail"].(map[string]any)
	require.Equal(t, true, filter["has_key"])
	require.NotContains(t, w.call(http.MethodGet, auditPath).body, "order-1")
	require.Equal(t, "failed", filter["filter"].(map[string]any)["error_contains"])
	require.Equal(t, "done", ended["outcome"])
	require.EqualValues(t, 2, ended["detail"].(map[string]any)["retried"])
}

func TestACommandIsNotSentUnlessItIsRecorded(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.Store = unrecorded{o.Store} })
	id := w.add(1)[0]
	requireError(t, w.call(http.MethodPost, retryPath(id)), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	require.Zero(t, w.retries.starts())
	require.Equal(t, "PENDING", w.status(id))
}

// unrecorded is a store that cannot write the audit.
type unrecorded struct{ api.Store }

func (unrecorded) RecordOperation(context.Context, dlq.Operation) error { return dlq.ErrUnavailable }
