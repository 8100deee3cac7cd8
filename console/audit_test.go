package console

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/client"
)

func operation(change func(*client.Operation)) client.Operation {
	o := client.Operation{ID: "op-1", Subject: "ann", Method: "oidc", Address: "192.0.2.7", Action: "dlq:job:create", Outcome: "done", RequestID: "req_9", Detail: json.RawMessage("null")}
	change(&o)
	return o
}

func audit(t *testing.T, operations ...client.Operation) *browser {
	t.Helper()
	return open(t, map[string]any{"GET /api/v1/audit": client.OperationList{Operations: operations}})
}

func TestAnOperationLinksToItsTargetAndToOthersLikeIt(t *testing.T) {
	t.Parallel()
	for target, page := range map[string]string{"message": "/messages/t-1", "job": "/jobs/t-1", "group": "/groups/t-1", "archive": "/archive"} {
		id, topic, reason := "t-1", "orders.dlq", "<b>why</b>"
		shown := audit(t, operation(func(o *client.Operation) {
			o.Target, o.TargetID, o.Topic, o.Reason, o.Detail = &target, &id, &topic, &reason, json.RawMessage(`{"matched":9007199254740993}`)
		})).get("/audit?outcome=done").text
		require.Contains(t, shown, `href="`+page+`"`, target)
		require.Contains(t, shown, `href="/topics/orders.dlq"`)
		require.Contains(t, shown, `href="/audit?outcome=done&amp;subject=ann"`, "one click shows what else the person did")
		require.Contains(t, shown, `href="/audit?outcome=done&amp;target_id=t-1"`)
		require.Contains(t, shown, "Start a job")
		require.Contains(t, shown, "9007199254740993")
		require.NotContains(t, shown, "<b>why")
		require.Contains(t, shown, `<option value="done" selected>`)
	}
}

func TestEveryOutcomeHasAnIconAndAWord(t *testing.T) {
	t.Parallel()
	for name, word := range map[client.OperationOutcome]string{
		"done": "Done", "accepted": "Accepted", "refused": "Refused", "failed": "Failed", "cancelled": "Cancelled", "unknown": "Not known", "later": "later",
	} {
		shown := audit(t, operation(func(o *client.Operation) { o.Outcome = name })).get("/audit").text
		require.Regexp(t, `<span class="status [^"]*o-`+string(name)+`"[^>]*><svg [^>]*>.*</svg> `+word+`</span>`, shown)
	}
}

func TestAnActionOfANewerServerIsShownByItsName(t *testing.T) {
	t.Parallel()
	require.Contains(t, audit(t, operation(func(o *client.Operation) { o.Action = "dlq:message:later" })).get("/audit").text, "<code>dlq:message:later</code></a>")
}

func TestAnEmptyAuditSaysSo(t *testing.T) {
	t.Parallel()
	require.Contains(t, audit(t).get("/audit?subject=nobody").text, "No operation matches.")
}

func TestWhoeverMayNotReadTheAuditSeesWhy(t *testing.T) {
	t.Parallel()
	refused := open(t, map[string]any{"GET /api/v1/audit": apiError{http.StatusForbidden, "SYS_DLQ_FORBIDDEN", "dlq:audit:read is needed"}}).get("/audit")
	require.Equal(t, http.StatusForbidden, refused.Code)
	require.Contains(t, refused.text, "dlq:audit:read is needed")
}

func TestTheFiltersOfTheAuditAreTheAPIs(t *testing.T) {
	t.Parallel()
	sent := audit(t).get("/audit?from=2026-01-31T08:00&to=&topic=orders.dlq")
	require.Equal(t, "/audit?from=2026-01-31T08%3A00%3A00Z&topic=orders.dlq", sent.Header().Get("Location"))
	require.Contains(t, audit(t).get("/audit?from=2026-01-31T08%3A00%3A00Z&topic=orders.dlq").text, `value="2026-01-31T08:00:00"`)
}
