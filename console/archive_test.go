package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/client"
)

const archivedID = "550e8400-e29b-41d4-a716-446655440000"

func archivePage(next *string, messages ...client.ListedMessage) client.MessageList {
	l := client.MessageList{Messages: messages}
	l.Pagination.TotalCount, l.Pagination.TotalCountExact, l.Pagination.NextCursor = int64(len(messages)), true, next
	return l
}

func archivedMessage() client.MessageDetail {
	return client.MessageDetail{
		ID: archivedID, DlqTopic: "orders.dlq", OriginalTopic: "orders", Status: "DEAD", ErrorMessage: "no rate",
		CreatedAt: time.Date(2026, 2, 1, 8, 0, 0, 0, time.UTC), Value: &client.Bytes{Base64: []byte(`{"order":9007199254740993}`), Size: 26},
	}
}

func TestTheArchiveAsksForATopicFirst(t *testing.T) {
	t.Parallel()
	shown := open(t, map[string]any{"GET /api/v1/dlq": client.Topics{Topics: []client.Topics_Topics{{DlqTopic: "orders.dlq"}}}}).get("/archive")
	require.Equal(t, http.StatusOK, shown.Code)
	require.Contains(t, shown.text, "Choose a topic")
	require.Contains(t, shown.text, `<option value="orders.dlq">`)
	require.NotContains(t, shown.text, "/plans/new", "nothing is chosen, so nothing can be planned")
}

func TestAFilterIsAddedToTheArchiveAsToATopic(t *testing.T) {
	t.Parallel()
	b := open(t, noTopics)
	for added, want := range map[string]string{
		"field=header&name=tenant&value=acme":                  "/archive?header.region=eu&header.tenant=acme&sort=created_at&topic=orders.dlq",
		"field=class&value=A&not=1":                            "/archive?header.region=eu&not.class=A&sort=created_at&topic=orders.dlq",
		"field=status%3DDEAD":                                  "/archive?header.region=eu&sort=created_at&status=DEAD&topic=orders.dlq",
		"field=error&value=&add_created_from=2026-01-31T08:00": "/archive?created_from=2026-01-31T08%3A00%3A00Z&header.region=eu&sort=created_at&topic=orders.dlq",
	} {
		sent := b.get("/archive?topic=orders.dlq&sort=created_at&header.region=eu&cursor=AAA&" + added)
		require.Equal(t, http.StatusSeeOther, sent.Code)
		require.Equal(t, want, sent.Header().Get("Location"))
	}
}

func TestArchivedMessagesAreListedAndPlannedWithTheSameFilters(t *testing.T) {
	t.Parallel()
	next := "AAA"
	b := open(t, map[string]any{"GET /api/v1/dlq": noTopics["GET /api/v1/dlq"], "GET /api/v1/archive/messages": archivePage(&next, client.ListedMessage{
		ID: archivedID, DlqTopic: "orders.dlq", Status: "DEAD", ErrorMessage: "<script>alert(1)</script>",
	})})
	shown := b.get("/archive?cursor=BBB&not.class=A&not.class=B&status=DEAD&topic=orders.dlq").text
	require.Contains(t, shown, "1 archived message<")
	require.Contains(t, shown, `href="/archive/`+archivedID+`"`)
	require.NotContains(t, shown, "<script>alert")
	require.Contains(t, shown, `href="/plans/new?kind=restore&amp;not.class=A&amp;not.class=B&amp;status=DEAD&amp;topic=orders.dlq"`)
	require.Contains(t, shown, `href="/archive?cursor=AAA&amp;not.class=A`, "the next page")
	require.Contains(t, shown, `href="/archive?not.class=A&amp;not.class=B&amp;status=DEAD&amp;topic=orders.dlq"`, "the first page")
	require.Contains(t, shown, `href="/archive?not.class=B&amp;status=DEAD&amp;topic=orders.dlq" aria-label="Remove this filter: not: error class is “A”"`)
	require.Contains(t, shown, `<input type="hidden" name="not.class" value="A">`, "the forms keep the filters in use")
	require.Contains(t, shown, `<option value="status=RESOLVED">`)
	require.Contains(t, shown, `aria-label="Remove this filter: status DEAD"`)
}

func TestWhatMatchesNothingCannotBePlanned(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]any{"GET /api/v1/dlq": noTopics["GET /api/v1/dlq"], "GET /api/v1/archive/messages": archivePage(nil)})
	shown := b.get("/archive?topic=orders.dlq").text
	require.Contains(t, shown, "No archived message matches.")
	require.NotContains(t, shown, "/plans/new")
}

func TestAnArchivedMessageIsRestoredWithAReason(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]any{
		"GET /api/v1/archive/messages/" + archivedID:               archivedMessage(),
		"POST /api/v1/archive/messages/" + archivedID + "/restore": client.Marked{ID: "550e8400-e29b-87d4-8713-4466aa440000"},
	})
	shown := b.get("/archive/" + archivedID).text
	require.Contains(t, shown, "9007199254740993")
	require.Contains(t, shown, "Restore this message")
	sent := b.post("/archive/"+archivedID+"/restore", url.Values{"reason": {"given up too early"}})
	require.Equal(t, "/messages/550e8400-e29b-87d4-8713-4466aa440000", sent.Header().Get("Location"))
	require.Equal(t, []string{"POST /api/v1/archive/messages/" + archivedID + `/restore {"reason":"given up too early"}`}, b.calls)
}

func TestARestoreThatTheAPIRefusesIsANotice(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]any{
		"GET /api/v1/archive/messages/" + archivedID:               archivedMessage(),
		"POST /api/v1/archive/messages/" + archivedID + "/restore": apiError{http.StatusConflict, "ERR_DLQ_NOT_RESTORABLE", "it was restored as 42"},
	})
	sent := b.post("/archive/"+archivedID+"/restore", nil)
	require.Equal(t, "/archive/"+archivedID, sent.Header().Get("Location"))
	require.Contains(t, b.get("/archive/"+archivedID).text, "it was restored as 42")
}

func TestAMessageThatWasRestoredLinksToTheNewOne(t *testing.T) {
	t.Parallel()
	id := archivedID
	for _, archived := range []bool{false, true} {
		b := open(t, map[string]any{
			"GET /api/v1/archive/messages/" + archivedID: archivedMessage(),
			"GET /api/v1/dlq/messages/" + archivedID + "/chain": client.Chain{Hops: []client.Hop{
				{ID: id}, {ID: "came-back", PreviousID: &id, Source: &client.Source{}}, {ID: "again", PreviousID: &id, Archived: archived},
			}},
		})
		page := map[bool]string{false: "/messages/again", true: "/archive/again"}[archived]
		shown := b.get("/archive/" + archivedID).text
		require.Contains(t, shown, `href="`+page+`"`)
		require.NotContains(t, shown, "Restore this message")
	}
}

func TestAnArchivedMessageOfStrangersStaysText(t *testing.T) {
	t.Parallel()
	hostile, nothing := "</pre><script>alert(1)</script>", client.Headers{}
	for range 10000 {
		nothing = append(nothing, client.Headers_Item{Key: hostile, Text: &hostile, Value: &[]byte{1}})
	}
	m := archivedMessage()
	m.ErrorMessage, m.StackTrace, m.ErrorClass, m.Headers = hostile, &hostile, &hostile, nothing
	m.Key = &client.Bytes{Base64: []byte{0, 0xff}, Size: 2}
	m.Value = &client.Bytes{Base64: []byte(strings.Repeat("あ", 200<<10)), Size: 15 << 20}
	shown := open(t, map[string]any{"GET /api/v1/archive/messages/" + archivedID: m}).get("/archive/" + archivedID).text
	require.NotContains(t, shown, "<script>alert")
	require.NotContains(t, shown, "\ufffd", "a character was cut")
	require.Contains(t, shown, "This is the beginning of 15.0 MiB.")
	require.Contains(t, shown, "9,800 more headers are not shown.")
	require.Contains(t, shown, "2 B that are no text.")
	require.Less(t, len(shown), 300<<10)
}

func TestWhoeverMayNotChangeTheArchiveSeesButtonsThatAreOff(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]any{
		"GET /api/v1/me": client.Me{Subject: "viewer"}, "GET /api/v1/dlq": noTopics["GET /api/v1/dlq"],
		"GET /api/v1/archive/messages":               archivePage(nil, client.ListedMessage{ID: archivedID}),
		"GET /api/v1/archive/messages/" + archivedID: archivedMessage(),
	})
	list, one := b.get("/archive?topic=orders.dlq").text, b.get("/archive/"+archivedID).text
	require.Contains(t, list, "<button disabled>Plan to restore what was found</button>")
	require.Contains(t, list, "<button disabled>Run the archive now</button>")
	require.Contains(t, one, "<button disabled>Restore this message</button>")
	require.NotContains(t, list+one, `action="/archive/`)
}

func TestTheArchiveRunsOnDemand(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]any{"GET /api/v1/dlq": noTopics["GET /api/v1/dlq"], "POST /api/v1/archive/runs": client.RunArchive202JSONResponseBody{Schedule: "dlq-archive"}})
	require.Equal(t, "/archive", b.post("/archive/runs", url.Values{"reason": {"disk"}}).Header().Get("Location"))
	require.Equal(t, []string{`POST /api/v1/archive/runs {"reason":"disk"}`}, b.calls)
	require.Contains(t, b.get("/archive").text, "The archive runs now")
}

func TestFiltersThatTheAPIRefusesStayInTheForm(t *testing.T) {
	t.Parallel()
	bad := apiError{http.StatusBadRequest, "SYS_DLQ_VALIDATION", "created_from is no time"}
	b := open(t, map[string]any{"GET /api/v1/dlq": noTopics["GET /api/v1/dlq"], "GET /api/v1/archive/messages": bad, "GET /api/v1/audit": bad})
	for _, path := range []string{"/archive?class=Timeout&topic=orders.dlq", "/audit?topic=orders.dlq"} {
		shown := b.get(path)
		require.Equal(t, http.StatusOK, shown.Code, path)
		require.Contains(t, shown.text, "created_from is no time", path)
		require.Contains(t, shown.text, `value="orders.dlq"`, path)
		require.NotContains(t, shown.text, "matches.", path)
	}
}

func TestTheLinksOfAListStayBelowTheBase(t *testing.T) {
	t.Parallel()
	next := "AAA"
	b := open(t, map[string]any{"GET /api/v1/dlq": noTopics["GET /api/v1/dlq"], "GET /api/v1/archive/messages": archivePage(&next)},
		func(o *Options) { o.Base = "/dlq" })
	shown := b.get("/archive?cursor=BBB&topic=orders.dlq").text
	require.Contains(t, shown, `href="/dlq/archive?cursor=AAA&amp;topic=orders.dlq"`)
	require.Contains(t, shown, `href="/dlq/archive?topic=orders.dlq"`)
	require.Contains(t, shown, `href="/dlq/plans/new?kind=restore&amp;topic=orders.dlq"`)
	require.NotContains(t, shown, `href="/archive`)
}

func TestEveryListLeadsToItsNextPageBelowTheBase(t *testing.T) {
	t.Parallel()
	api := letters()
	for _, list := range []string{"groups", "jobs", "retries", "audit"} {
		api["GET /api/v1/"+list] = map[string]any{"pagination": map[string]any{"next_cursor": "AAA", "has_next": true}}
	}
	api["GET /api/v1/groups"] = client.GroupList{Groups: []client.Group{aGroup()}, Pagination: client.Pagination{HasNext: true, NextCursor: new("AAA")}}
	api["GET /api/v1/jobs"] = map[string]any{"jobs": []any{retryJob()}, "pagination": map[string]any{"next_cursor": "AAA"}}
	b := open(t, api, func(o *Options) { o.Base = "/dlq" })
	for _, path := range []string{"/topics/orders.dlq", "/groups", "/jobs", "/retries", "/audit"} {
		shown := b.get(path + "?cursor=BBB").text
		require.Regexp(t, `<a href="/dlq`+path+`(\?sort=\w+)?">First page</a> <a href="/dlq`+path+`\?cursor=\w+(&amp;sort=\w+)?" rel="next">Next page`, shown, path)
	}
}
