package api_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
)

const auditPath = "/api/v1/audit"

// audited records an operation for each subject, all on the same topic.
func (w *world) audited(subjects ...string) {
	w.t.Helper()
	for _, subject := range subjects {
		require.NoError(w.t, w.store.RecordOperation(w.t.Context(), dlq.Operation{
			Subject: subject, Method: "token", Address: "192.0.2.1", Action: dlq.PermMessageRetry, Topic: subject + ".dlq",
			Target: dlq.TargetMessage, TargetID: dlq.NewID(), RequestID: "r", Outcome: dlq.OperationAccepted}))
	}
}

// operations are the operations in an answer.
func operations(t testing.TB, got response) []map[string]any {
	t.Helper()
	require.Equal(t, http.StatusOK, got.status, got.body)
	var list []map[string]any
	for _, o := range got.field(t, "operations").([]any) {
		list = append(list, o.(map[string]any))
	}
	return list
}

func subjectsOf(t *testing.T, got response) (subjects []string) {
	t.Helper()
	for _, o := range operations(t, got) {
		subjects = append(subjects, o["subject"].(string))
	}
	return subjects
}

func TestTheAuditIsEmptyAtFirst(t *testing.T) {
	t.Parallel()
	require.Equal(t, `{"operations":[],"pagination":{"page_size":20,"has_next":false,"next_cursor":null}}`,
		start(t).call(http.MethodGet, auditPath).body)
}

func TestTheAuditShowsEveryFieldOfAnOperation(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.TemporalUI = "http://127.0.0.1:8233" })
	target := dlq.NewID()
	require.NoError(t, w.store.RecordOperation(t.Context(), dlq.Operation{
		Subject: "ann", Method: "oidc", Address: "192.0.2.1", Action: dlq.PermJobCreate, Topic: "orders.dlq", Target: dlq.TargetJob, TargetID: target,
		Reason: "<why>", RequestID: "r-1", WorkflowID: "w", Outcome: dlq.OperationAccepted, Detail: json.RawMessage(`{"matched":3}`)}))
	require.NoError(t, w.store.RecordOperation(t.Context(), dlq.Operation{Subject: "bob", Outcome: dlq.OperationRefused}))
	list := operations(t, w.call(http.MethodGet, auditPath))
	require.Len(t, list, 2)
	for _, o := range list {
		_, err := dlq.ParseID(o["id"].(string))
		require.NoError(t, err)
		at, err := time.Parse("2006-01-02T15:04:05.000-07:00", o["at"].(string))
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), at, time.Minute)
		delete(o, "id")
		delete(o, "at")
	}
	require.Equal(t, map[string]any{
		"subject": "ann", "method": "oidc", "address": "192.0.2.1", "action": "dlq:job:create", "topic": "orders.dlq", "target": "job",
		"target_id": target.String(), "reason": "<why>", "request_id": "r-1", "outcome": "accepted", "detail": map[string]any{"matched": 3.0},
		"workflow": map[string]any{"workflow_id": "w", "url": "http://127.0.0.1:8233/namespaces/default/workflows/w"},
	}, list[1])
	require.Equal(t, map[string]any{
		"subject": "bob", "method": "", "address": "", "action": "", "topic": nil, "target": nil, "target_id": nil, "reason": nil,
		"request_id": "", "outcome": "refused", "detail": nil, "workflow": nil,
	}, list[0])
}

func TestTheAuditIsReadByCursor(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.audited("a", "b", "c", "d", "e")
	var seen []string
	path := auditPath + "?page_size=2"
	for pages := 0; path != ""; pages++ {
		require.Less(t, pages, 3)
		got := w.call(http.MethodGet, path)
		seen = append(seen, subjectsOf(t, got)...)
		require.EqualValues(t, 2, got.field(t, "pagination", "page_size"))
		next, more := got.field(t, "pagination", "next_cursor").(string)
		require.Equal(t, more, got.field(t, "pagination", "has_next"))
		if path = ""; more {
			path = auditPath + "?page_size=2&cursor=" + next
		}
		w.audited("later")
	}
	require.Equal(t, []string{"e", "d", "c", "b", "a"}, seen)
}

func TestTheAuditIsFiltered(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.audited("ann", "bob")
	list := operations(t, w.call(http.MethodGet, auditPath))
	bob, ann := list[0], list[1]
	future := url.QueryEscape(time.Now().Add(time.Hour).Format(time.RFC3339))
	for query, want := range map[string][]string{
		"subject=bob":             {"bob"},
		"action=dlq:message:dead": nil, "action=dlq:message:retry": {"bob", "ann"},
		"topic=ann.dlq":                                      {"ann"},
		"target_id=" + ann["target_id"].(string):             {"ann"},
		"outcome=refused":                                    nil,
		"from=" + future:                                     nil,
		"to=" + future + "&from=2006-01-01T00:00:00Z":        {"bob", "ann"},
		"subject=ann&target_id=" + bob["target_id"].(string): nil,
	} {
		require.Equal(t, want, subjectsOf(t, w.call(http.MethodGet, auditPath+"?"+query)), query)
	}
}

func TestAGrantLimitsTheAuditToItsTopics(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	w.audited("ann", "bob")
	require.NoError(t, w.store.RecordOperation(t.Context(), dlq.Operation{Subject: "nobody", Outcome: dlq.OperationRefused}))
	for token, want := range map[string][]string{
		"viewer": {"nobody", "bob", "ann"}, "viewer/ann.*": {"ann"}, "viewer/ann.*+operator/bob.dlq": {"bob", "ann"}, "admin/stock.*": nil,
	} {
		require.Equal(t, want, subjectsOf(t, w.call(http.MethodGet, auditPath, bearer(token))), token)
	}
	require.Nil(t, subjectsOf(t, w.call(http.MethodGet, auditPath+"?topic=bob.dlq", bearer("viewer/ann.*"))))
}

func TestUnknownFiltersOfTheAuditAreRefused(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.audited("ann", "bob")
	cursor := w.call(http.MethodGet, auditPath+"?page_size=1").field(t, "pagination", "next_cursor").(string)
	w.add(2)
	other := w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1?page_size=1").field(t, "pagination", "next_cursor").(string)
	for query, field := range map[string]string{
		"user=ann": "user", "action=delete": "action", "action=": "action", "topic=a%20b": "topic", "target_id=x": "target_id",
		"outcome=maybe": "outcome", "from=yesterday": "from", "page_size=201": "page_size", "cursor=x": "cursor", "cursor=" + other: "cursor",
		"cursor=" + cursor + "A": "cursor", "subject=a&subject=b": "subject", "subject=%00": "subject",
		"from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z": "to",
	} {
		_, got := w.send(http.MethodGet, auditPath+"?"+query, nil)
		_, fields := requireError(t, got, http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, []string{field}, fields, query)
	}
	_, got := w.send(http.MethodGet, "/api/v1/dlq/orders.dlq.v1?cursor="+cursor, nil)
	requireError(t, got, http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	for _, method := range []string{http.MethodPost, http.MethodDelete, http.MethodPatch} {
		_, got := w.send(method, auditPath, nil)
		requireError(t, got, http.StatusMethodNotAllowed, "SYS_DLQ_METHOD_NOT_ALLOWED")
	}
}
