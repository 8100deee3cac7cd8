package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// operations reads the audit. The newest row is first.
func (w *world) operations(headers ...string) []map[string]any {
	w.t.Helper()
	got := w.call(http.MethodGet, auditPath+"?page_size=200", headers...)
	require.Equal(w.t, http.StatusOK, got.status, got.body)
	return operations(w.t, got)
}

func TestEveryRouteThatChangesSomethingIsRecorded(t *testing.T) {
	t.Parallel()
	for route, permission := range tableOfRoutes(t) {
		if strings.HasPrefix(route, "GET ") || route == "POST /api/v1/plans" {
			continue
		}
		t.Run(route, func(t *testing.T) {
			t.Parallel()
			w := startWithTokens(t)
			id := w.prepare(route)
			for _, token := range []string{"viewer", "admin/stock.*", "admin"} { // the last token may change the resource
				outcomes := []string{"refused"}
				if token == "admin" {
					outcomes = []string{"done", "accepted"}
				}
				before := len(w.operations(bearer("admin")))
				got := w.callRoute(route, id, token)
				rows := w.operations(bearer("admin"))
				require.Greater(t, len(rows), before, got.body)
				row := rows[len(rows)-before-1] // the oldest new row; the end of a job is a later row
				require.Equal(t, permission, row["action"])
				require.Equal(t, token, row["subject"])
				require.Equal(t, "127.0.0.1", row["address"])
				require.Contains(t, outcomes, row["outcome"])
				require.Equal(t, row["outcome"] == "refused", got.status >= http.StatusBadRequest, got.body)
				require.Equal(t, got.header.Get("X-Request-Id"), row["request_id"])
			}
		})
	}
}

func TestReadsPlansAndStrangersAreNotRecorded(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	id := w.add(1)[0].String()
	w.call(http.MethodGet, "/api/v1/dlq/messages/"+id, bearer("admin"))
	w.json(http.MethodPost, plansPath, `{"kind":"retry","topic":"orders.v1"}`, bearer("admin"))
	w.json(http.MethodPost, plansPath, `{"topic":"orders.v1","kind":"dead"}`, bearer("admin"))
	w.call(http.MethodDelete, "/api/v1/dlq/messages/"+id)
	w.call(http.MethodDelete, "/api/v1/dlq/messages/"+id, bearer("nobody"))
	w.call(http.MethodDelete, "/api/v1/dlq/messages/x", bearer("admin")) // a malformed request
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
	got := w.json(http.MethodPost, jobsPath, `{"kind":"retry","topic":"orders.v1","key":"order-1","error":"failed","reason":"fixed in 1.2"}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	rows := w.operations()
	require.Len(t, rows, 2, "its creation and its end")
	created, ended := rows[1], rows[0]
	require.Equal(t, "accepted", created["outcome"])
	require.Equal(t, "fixed in 1.2", created["reason"])
	require.Equal(t, got.field(t, "id"), created["target_id"])
	filter := created["detail"].(map[string]any)["filter"].(map[string]any)
	require.Contains(t, filter, "key")
	require.NotContains(t, w.call(http.MethodGet, auditPath).body, "order-1")
	require.Equal(t, "failed", filter["error_contains"])
	require.Equal(t, "done", ended["outcome"])
	require.EqualValues(t, 2, ended["detail"].(map[string]any)["retried"])

	got = w.json(http.MethodPost, jobsPath, `{"kind":"retry","topic":"orders.v1","headers":{"tenant":"secret-1"},"payload":{"id":"secret-2"}}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	audit := w.call(http.MethodGet, auditPath).body
	require.Contains(t, audit, "tenant")
	require.NotContains(t, audit, "secret-")
}

func TestACommandIsNotSentUnlessItIsRecorded(t *testing.T) {
	t.Parallel()
	w := start(t, wrapped(func(s Store) Store { return unrecorded{s} }))
	id := w.add(1)[0]
	requireError(t, w.call(http.MethodPost, retryPath(id)), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	require.Zero(t, w.retries.starts())
	require.Equal(t, "PENDING", w.status(id))
}

func TestEachAttemptNamesTheRequestThatAskedForIt(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1)[0]
	path := "/api/v1/dlq/messages/" + id.String()
	w.retries.fail(&dlq.DeliveryError{Category: dlq.CategoryTransient, Err: context.DeadlineExceeded})
	for range 2 {
		require.Equal(t, http.StatusOK, w.call(http.MethodPost, retryPath(id)).status)
	}
	bulk := w.json(http.MethodPost, jobsPath, `{"kind":"retry","topic":"orders.v1"}`)
	require.Equal(t, http.StatusOK, bulk.status, bulk.body)
	rows := w.operations()
	require.Equal(t, []any{"done", "accepted", "accepted", "accepted"}, []any{rows[0]["outcome"], rows[1]["outcome"], rows[2]["outcome"], rows[3]["outcome"]})
	want := []any{rows[3]["id"], rows[2]["id"], rows[1]["id"]}
	message := w.call(http.MethodGet, path)
	hop := w.call(http.MethodGet, path+"/chain").field(t, "hops").([]any)[0].(map[string]any)
	for _, attempts := range []any{message.field(t, "attempts"), hop["attempts"]} {
		var named []any
		for _, a := range attempts.([]any) {
			named = append(named, a.(map[string]any)["operation_id"])
		}
		require.Equal(t, want, named)
	}
	require.Equal(t, want[2], message.field(t, "operation_id"), "of the last retry")
}

func TestARequestThatJoinsARetrySaysSo(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1)[0]
	w.retries.hold()
	started := w.call(http.MethodPost, retryPath(id), "Prefer: respond-async")
	require.Equal(t, http.StatusAccepted, started.status, started.body)
	require.Equal(t, http.StatusAccepted, w.call(http.MethodPost, retryPath(id), "Prefer: respond-async").status)
	rows := w.operations()
	require.Len(t, rows, 3)
	require.Equal(t, map[string]any{"command": "retry", "joined_run": started.field(t, "run_id")}, rows[0]["detail"])
	require.Equal(t, rows[1]["request_id"], rows[0]["request_id"])
	for _, row := range rows[1:] {
		require.Equal(t, map[string]any{"command": "retry"}, row["detail"])
	}
	w.retries.release()
	require.Eventually(t, func() bool { return w.status(id) == "RESOLVED" }, 5*time.Second, time.Millisecond)
	require.Equal(t, rows[2]["id"], w.call(http.MethodGet, "/api/v1/dlq/messages/"+id.String()).field(t, "operation_id"))
}

func TestACommandThatFailsAfterItsRowHasASecondOne(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1)[0]
	for range 20 { // the audit records the first request at once
		w.call(http.MethodPost, "/api/v1/dlq/messages/"+id.String()+"/revive")
	}
	w.retries.unavailable = dlq.ErrUnavailable
	requireError(t, w.call(http.MethodPost, retryPath(id)), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	rows := w.operations()
	require.Equal(t, []any{"unknown", "accepted", "refused"}, []any{rows[0]["outcome"], rows[1]["outcome"], rows[2]["outcome"]},
		"the retry may have been started")
	require.Equal(t, rows[1]["request_id"], rows[0]["request_id"])
	require.Equal(t, map[string]any{"workflow_id": "retry-message-" + id.String()}, rows[0]["workflow"])
	require.EqualValues(t, http.StatusServiceUnavailable, rows[0]["detail"].(map[string]any)["status"])
	require.Equal(t, topicOfAccess, rows[0]["topic"])

	for _, c := range [][2]string{{jobsPath, `{"kind":"retry","topic":"orders.v1"}`}, {jobsPath, `{"topic":"orders.v1","kind":"dead"}`}} {
		requireError(t, w.json(http.MethodPost, c[0], c[1]), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
		rows := w.operations()
		require.Equal(t, []any{"unknown", "accepted"}, []any{rows[0]["outcome"], rows[1]["outcome"]})
		require.NotNil(t, rows[1]["target_id"])
		require.Equal(t, rows[1]["target_id"], rows[0]["target_id"])
		require.Equal(t, rows[1]["workflow"], rows[0]["workflow"])
	}
}

func TestACommandThatTemporalDoesNotAnswerHasASecondRow(t *testing.T) {
	t.Parallel()
	w := start(t)
	path, _ := w.startBulk(1)
	w.retries.mu.Lock()
	w.retries.unavailable = dlq.ErrUnavailable
	w.retries.mu.Unlock()
	for _, command := range commands {
		got := w.json(command[0], path+command[1], command[2])
		requireError(t, got, http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
		rows := w.operations()
		require.Equal(t, []any{"unknown", "accepted"}, []any{rows[0]["outcome"], rows[1]["outcome"]}, command)
		for _, row := range rows[:2] {
			require.Equal(t, got.header.Get("X-Request-Id"), row["request_id"])
			require.Equal(t, rows[0]["workflow"], row["workflow"])
		}
	}
}

func TestARetryThatItsWorkflowRefusesHasASecondRow(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1)[0]
	w.retries.holdEarly()
	answers := make(chan response, 1)
	go func() { answers <- w.call(http.MethodPost, retryPath(id), "Prefer: wait=10") }()
	require.Eventually(t, func() bool { return w.retries.starts() == 1 }, 5*time.Second, time.Millisecond)
	require.Equal(t, http.StatusOK, w.json(http.MethodPost, "/api/v1/dlq/messages/"+id.String()+"/dead", `{}`).status)
	w.retries.release()
	requireError(t, <-answers, http.StatusConflict, "SYS_DLQ_CONFLICT")
	rows := w.operations()
	require.Equal(t, []any{"refused", "done", "accepted"}, []any{rows[0]["outcome"], rows[1]["outcome"], rows[2]["outcome"]})
	require.Equal(t, rows[2]["workflow"], rows[0]["workflow"])
	require.Equal(t, rows[2]["request_id"], rows[0]["request_id"])
}

func TestARefusedRequestHasItsReasonAndTopic(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	w.add(1)
	created := w.json(http.MethodPost, jobsPath, `{"topic":"orders.v1","kind":"delete"}`, bearer("admin"))
	require.Equal(t, http.StatusOK, created.status, created.body)
	id := w.add(1, dlqtest.Cause("no price"))[0].String()
	group := "/api/v1/groups/" + w.groupOf(id)
	for _, c := range []struct{ method, path, body, token, topic string }{
		{http.MethodPost, retryPath(mustID(t, id)), `{"reason":"why","value":{"a":1},"target_topic":"x"}`, "viewer", topicOfAccess},
		{http.MethodPatch, group, `{"reason":"why","owner":"eve"}`, "viewer", topicOfAccess},
		{http.MethodPost, group + "/fixed", `{"reason":"why"}`, "viewer/orders.*", topicOfAccess},
		{http.MethodPost, "/api/v1/dlq/messages/" + id + "/dead", `{"reason":"why"}`, "viewer", topicOfAccess},
		{http.MethodPost, "/api/v1/dlq/messages/" + id + "/revive", `{"reason":"why"}`, "admin", topicOfAccess}, // a PENDING message
		{http.MethodPost, "/api/v1/dlq/messages/" + id + "/revive", `{"reason":"why"}`, "viewer/stock.*", topicOfAccess},
		{http.MethodDelete, "/api/v1/dlq/messages/" + id + "?reason=why", "", "operator", topicOfAccess},
		{http.MethodPost, "/api/v1/dlq/messages/" + someID + "/dead", `{"reason":"why"}`, "viewer/stock.*", ""},
		{http.MethodPost, plansPath, `{"kind":"retry","topic":"orders.v1","reason":"why"}`, "viewer", "orders.v1"},
		{http.MethodPost, plansPath, `{"kind":"retry","topic":"orders.v1","reason":"why"}`, "operator/stock.*", "orders.v1"},
		{http.MethodPost, jobsPath + "/" + created.field(t, "id").(string) + "/cancel", `{"reason":"why"}`, "viewer", "orders.v1"},
		{http.MethodPost, jobsPath + "/" + created.field(t, "id").(string) + "/cancel", `{"reason":"why"}`, "admin", "orders.v1"}, // an ended job
	} {
		before := len(w.operations(bearer("admin")))
		got := w.json(c.method, c.path, c.body, bearer(c.token))
		require.GreaterOrEqual(t, got.status, http.StatusBadRequest, c)
		rows := w.operations(bearer("admin"))
		require.Len(t, rows, before+1, c)
		topic, _ := rows[0]["topic"].(string)
		require.Equal(t, []any{"refused", "why", c.topic}, []any{rows[0]["outcome"], rows[0]["reason"], topic}, c)
	}
}

func TestRefusedRequestsOfOneSenderAreCounted(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	ids := w.add(5)
	for _, id := range ids {
		for _, token := range []string{"viewer", "viewer/stock.*"} {
			require.Equal(t, http.StatusForbidden, w.call(http.MethodDelete, "/api/v1/dlq/messages/"+id.String(), bearer(token)).status)
		}
	}
	require.Equal(t, http.StatusForbidden, w.json(http.MethodPost, "/api/v1/dlq/messages/"+ids[0].String()+"/dead", `{}`, bearer("viewer")).status)
	rows := w.operations(bearer("admin"))
	require.Len(t, rows, 3, "the first of each sender and route")
	require.NotNil(t, rows[2]["target_id"])

	require.NoError(t, w.server.Shutdown(t.Context()))
	page, err := w.store.Operations(t.Context(), dlq.OperationQuery{PageSize: 100})
	require.NoError(t, err)
	require.Len(t, page.Entries, 5)
	for _, o := range page.Entries[:2] {
		require.Equal(t, []any{dlq.OperationRefused, dlq.PermMessageDelete, dlq.ID{}, ""}, []any{o.Outcome, o.Action, o.TargetID, o.Topic})
		require.JSONEq(t, `{"code": "SYS_DLQ_FORBIDDEN", "count": 4}`, string(o.Detail))
	}
}

func TestALongReasonOfARefusedRequestIsShortened(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	id := w.add(1)[0]
	reason := strings.Repeat("why ", 5000)
	got := w.json(http.MethodPost, retryPath(id), `{"unknown":1,"reason":"`+reason+`"}`, bearer("viewer"))
	require.Equal(t, http.StatusForbidden, got.status)
	shown := w.operations(bearer("admin"))[0]["reason"].(string)
	require.Contains(t, reason, shown)
	require.InDelta(t, 2<<10, len(shown), 10)
}

// unrecorded is a store that cannot write the audit.
type unrecorded struct{ Store }

func (unrecorded) RecordOperation(context.Context, dlq.Operation) error { return dlq.ErrUnavailable }
