package console

import (
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/client"
)

const retryCall = "POST /api/v1/dlq/messages/" + messageID + "/retry"

func TestARetryShowsItsEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		retry client.Retry
		want  string
	}{
		"delivered": {client.Retry{ID: messageID, Status: client.StatusRESOLVED, Published: new(true)}, "The message was delivered."},
		"failed":    {client.Retry{ID: messageID, Status: client.StatusPENDING, Published: new(false), Error: new("no leader")}, "not delivered: no leader"},
		"a copy":    {client.Retry{ID: "copy", Status: client.StatusRESOLVED, Published: new(true)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := letter()
			b := openMessage(t, m)
			b.api[retryCall] = test.retry
			sent := b.post("/messages/"+messageID+"/retry", seen(m, "reason", "the stock is back"))
			require.Equal(t, http.StatusSeeOther, sent.Code)
			require.Equal(t, "/messages/"+test.retry.ID, sent.Header().Get("Location"))
			require.Equal(t, []string{retryCall + ` {"reason":"the stock is back"}`}, b.calls)
			if test.want != "" {
				require.Contains(t, b.get(sent.Header().Get("Location")).text, test.want)
			}
		})
	}
}

func TestAMessageThatHasChangedIsLeftAlone(t *testing.T) {
	t.Parallel()
	old, now := letter(), letter(func(m *client.MessageDetail) { m.RetryCount = 1 })
	for _, action := range []string{"retry", "dead", "revive", "delete"} {
		b := openMessage(t, now)
		refused := b.post("/messages/"+messageID+"/"+action, seen(old))
		require.Equal(t, "/messages/"+messageID, refused.Header().Get("Location"), action)
		require.Empty(t, b.calls, action)
		require.Contains(t, b.get("/messages/"+messageID).text, "has changed since you saw it")
	}
	b := openMessage(t, now)
	b.post("/messages/"+messageID+"/retry", nil)
	require.Empty(t, b.calls, "a form of nothing")
}

func TestARetryThatNoWorkerHasTakenIsShown(t *testing.T) {
	t.Parallel()
	b := openMessage(t, letter())
	b.api["GET /api/v1/retries"] = client.SingleRetries{Retries: []client.SingleRetry{
		{MessageID: messageID, OperationID: "op", State: client.SingleRetryStateUNCLAIMED, Actor: "ann", StartedAt: letter().CreatedAt},
	}}
	page := b.get("/messages/" + messageID)
	require.Contains(t, page.text, "No worker has taken the message")
	require.Contains(t, page.text, "ann")
	require.Contains(t, page.text, `action="/messages/`+messageID+`/retry"`, "another retry joins it")
}

func TestARunningRetryIsWatchedAndCanBeJoined(t *testing.T) {
	t.Parallel()
	m := letter(func(m *client.MessageDetail) {
		m.Status, m.Workflow = client.StatusRETRYING, &client.Workflow{WorkflowID: "retry-message-x", URL: new("https://temporal.example/w")}
	})
	page := openMessage(t, m).get("/messages/" + messageID)
	require.Contains(t, page.text, `data-every="2"`)
	require.Contains(t, page.text, `href="https://temporal.example/w"`)
	require.Contains(t, page.text, "A retry is under way.")
	require.Contains(t, page.text, "it joins the one that runs")
}

func TestWhatIsNotAllowedIsOffAndSaysWhomToAsk(t *testing.T) {
	t.Parallel()
	b := openMessage(t, letter())
	b.api["GET /api/v1/me"] = client.Me{Subject: "viewer"}
	page := b.get("/messages/" + messageID)
	require.NotContains(t, page.text, `action="/messages/`)
	require.Contains(t, page.text, "An administrator of the manager can give you dlq:message:retry")
	require.Contains(t, page.text, "An administrator of the manager can give you dlq:message:delete")
}

func TestHiddenPartsAreNamedAndCanBeRevealed(t *testing.T) {
	t.Parallel()
	for _, path := range messagePages {
		b := openMessage(t, letter(func(m *client.MessageDetail) { m.MaskedPaths = &[]string{"value.customer.<b>", "error_message"} }))
		page := b.get(path)
		require.Contains(t, page.text, "value.customer.&lt;b&gt;")
		require.Contains(t, page.text, "An administrator of the manager can give you dlq:message:unmask")
		require.Contains(t, b.get("/messages/"+messageID+"/edit").text, "Parts of it are hidden from you.")

		b.api["GET /api/v1/me"] = client.Me{Routes: append(slices.Clone(unrestricted.Routes), client.Me_Routes{Method: "POST", Path: "/api/v1/dlq/messages/:id/unmask"})}
		b.api["POST /api/v1/dlq/messages/"+messageID+"/unmask"] = letter()
		require.Contains(t, b.get(path).text, `action="`+path+`/unmask"`)
		require.Equal(t, path, b.post(path+"/unmask", url.Values{"reason": {"ticket 7"}}).Header().Get("Location"))
		require.Equal(t, []string{"POST /api/v1/dlq/messages/" + messageID + `/unmask {"reason":"ticket 7"}`}, b.calls)
	}
}

func TestARevealedMessageSaysUntilWhen(t *testing.T) {
	t.Parallel()
	b := openMessage(t, letter(func(m *client.MessageDetail) { m.UnmaskedUntil = new(time.Date(2026, 2, 20, 10, 40, 0, 0, time.UTC)) }))
	for _, path := range messagePages {
		require.Regexp(t, `You see parts that are hidden from others, until <time datetime="2026-02-20T10:40:00.000Z"`, b.get(path).text)
	}
}

func TestADeletedMessageLeadsToItsTopic(t *testing.T) {
	t.Parallel()
	m := letter()
	b := openMessage(t, m)
	b.api["DELETE /api/v1/dlq/messages/"+messageID] = client.Deleted{Success: true}
	require.Contains(t, b.get("/messages/"+messageID).text, "Delete from orders.dlq.v1")
	gone := b.post("/messages/"+messageID+"/delete", seen(m, "reason", "a test & more"))
	require.Equal(t, "/topics/orders.dlq.v1", gone.Header().Get("Location"))
	require.Equal(t, []string{"DELETE /api/v1/dlq/messages/" + messageID + "?reason=a+test+%26+more"}, b.calls)
}

func TestARefusalOfTheAPIIsANoticeOnThePage(t *testing.T) {
	t.Parallel()
	m := letter()
	b := openMessage(t, m)
	b.api["POST /api/v1/dlq/messages/"+messageID+"/dead"] = apiError{http.StatusConflict, "ERR_DLQ_CONFLICT", "it is RESOLVED"}
	refused := b.post("/messages/"+messageID+"/dead", seen(m))
	require.Contains(t, b.get(refused.Header().Get("Location")).text, "it is RESOLVED")
}

func TestRetriesAreListedWithTheirStates(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]any{"GET /api/v1/retries": client.SingleRetries{
		Retries: []client.SingleRetry{
			{MessageID: messageID, OperationID: "op", State: client.SingleRetryStateFAILED, Actor: "<b>ann", Error: new("no leader"), Topic: new("orders.dlq.v1")},
			{MessageID: "gone", OperationID: "op2", State: client.SingleRetryStateGONE, Actor: "ann"},
		},
		Pagination: client.Pagination{HasNext: true, NextCursor: new("next")},
	}})
	page := b.get("/retries?actor=ann&cursor=c")
	require.Contains(t, page.text, "no leader")
	require.NotContains(t, page.text, "<b>ann")
	require.Contains(t, page.text, `href="/retries?actor=ann&amp;cursor=next"`)
	require.Contains(t, page.text, `href="/retries?actor=ann"`)
	require.NotContains(t, page.text, `href="/messages/gone"`)
}
