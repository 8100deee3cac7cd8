package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/client"
)

func archivePage(next *string, messages ...client.ListedMessage) client.MessageList {
	l := client.MessageList{Messages: messages}
	l.Pagination.TotalCount, l.Pagination.TotalCountExact, l.Pagination.NextCursor = int64(len(messages)), true, next
	return l
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
		ID: messageID, DlqTopic: "orders.dlq", Status: "DEAD", ErrorMessage: "<script>alert(1)</script>",
	})})
	shown := b.get("/archive?cursor=BBB&not.class=A&not.class=B&status=DEAD&topic=orders.dlq").text
	require.Contains(t, shown, "1 archived message<")
	require.Contains(t, shown, `href="/archive/`+messageID+`"`)
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
		"GET /api/v1/archive/messages/" + messageID:               letter(),
		"POST /api/v1/archive/messages/" + messageID + "/restore": client.Marked{ID: "550e8400-e29b-87d4-8713-4466aa440000"},
	})
	shown := b.get("/archive/" + messageID).text
	require.Contains(t, shown, "9007199254740993")
	require.Contains(t, shown, "Restore this message")
	sent := b.post("/archive/"+messageID+"/restore", url.Values{"reason": {"given up too early"}})
	require.Equal(t, "/messages/550e8400-e29b-87d4-8713-4466aa440000", sent.Header().Get("Location"))
	require.Equal(t, []string{"POST /api/v1/archive/messages/" + messageID + `/restore {"reason":"given up too early"}`}, b.calls)
}

func TestARestoreThatTheAPIRefusesIsANotice(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]any{
		"GET /api/v1/archive/messages/" + messageID:               letter(),
		"POST /api/v1/archive/messages/" + messageID + "/restore": apiError{http.StatusConflict, "ERR_DLQ_NOT_RESTORABLE", "it was restored as 42"},
	})
	sent := b.post("/archive/"+messageID+"/restore", nil)
	require.Equal(t, "/archive/"+messageID, sent.Header().Get("Location"))
	require.Contains(t, b.get("/archive/"+messageID).text, "it was restored as 42")
}

func TestAMessageThatWasRestoredLinksToTheNewOne(t *testing.T) {
	t.Parallel()
	id := messageID
	for _, archived := range []bool{false, true} {
		b := open(t, map[string]any{
			"GET /api/v1/archive/messages/" + messageID: letter(),
			"GET /api/v1/dlq/messages/" + messageID + "/chain": client.Chain{Hops: []client.Hop{
				{ID: id}, {ID: "came-back", PreviousID: &id, Source: &client.Source{}}, {ID: "again", PreviousID: &id, Archived: archived},
			}},
		})
		page := map[bool]string{false: "/messages/again", true: "/archive/again"}[archived]
		shown := b.get("/archive/" + messageID).text
		require.Contains(t, shown, `href="`+page+`"`)
		require.NotContains(t, shown, "Restore this message")
	}
}

func TestARestoredMessageDoesNotSayThatItCameBack(t *testing.T) {
	t.Parallel()
	const archived, copied, back = messageID, "550e8400-e29b-87d4-8713-4466aa440000", "550e8401-0000-8000-8000-000000000000"
	const handedIn = "550e8402-0000-7000-8000-000000000000"
	pageOf := func(id, previous string, source *client.Source, language string) string {
		b := open(t, map[string]any{
			"GET /api/v1/dlq/messages/" + id: letter(func(m *client.MessageDetail) { m.ID, m.PreviousID, m.Source = id, &previous, source }),
			"GET /api/v1/dlq/messages/" + id + "/chain": client.Chain{Hops: []client.Hop{
				{ID: previous, Archived: previous == archived, CreatedAt: noon}, {ID: id, PreviousID: &previous, Source: source, CreatedAt: noon},
			}},
		})
		b.headers["Accept-Language"] = language
		return b.get("/messages/" + id).text
	}
	restored := pageOf(copied, archived, nil, "en")
	require.Contains(t, restored, `It was restored from the archive. There, it is <a href="/archive/`+archived+`">`)
	require.Contains(t, restored, `<span class="help">restored <time`)
	require.NotContains(t, restored, "It came back")
	require.NotContains(t, restored, `<span class="help">came back`)
	restored = pageOf(copied, archived, nil, "ja")
	require.Contains(t, restored, "アーカイブから復元されたメッセージです。元のメッセージ:")
	require.NotContains(t, restored, "戻ってきたメッセージです")
	for id, source := range map[string]*client.Source{back: {}, handedIn: nil} {
		text := pageOf(id, copied, source, "en")
		require.Contains(t, text, `It came back. Before, it was <a href="/messages/`+copied+`">`, id)
		require.Contains(t, text, `<span class="help">came back <time`, id)
	}
}

func TestAMessageThatWasHandedInAgainIsNotTheRestoredOne(t *testing.T) {
	t.Parallel()
	b := openMessage(t, letter())
	b.api["GET /api/v1/dlq/messages/"+messageID+"/chain"] = client.Chain{Hops: []client.Hop{
		{ID: messageID}, {ID: "550e8402-0000-7000-8000-000000000000", PreviousID: new(messageID)},
	}}
	require.Contains(t, b.get("/archive/"+messageID).text, "Restore this message")
}

func TestWhoeverMayNotChangeTheArchiveSeesButtonsThatAreOff(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]any{
		"GET /api/v1/me": client.Me{Subject: "viewer"}, "GET /api/v1/dlq": noTopics["GET /api/v1/dlq"],
		"GET /api/v1/archive/messages":              archivePage(nil, client.ListedMessage{ID: messageID}),
		"GET /api/v1/archive/messages/" + messageID: letter(),
	})
	list, one := b.get("/archive?topic=orders.dlq").text, b.get("/archive/"+messageID).text
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
	b := open(t, map[string]any{"GET /api/v1/dlq": noTopics["GET /api/v1/dlq"], "GET /api/v1/archive/messages": bad, "GET /api/v1/audit": bad, "GET /api/v1/dlq/orders.dlq": bad})
	for _, path := range []string{"/archive?class=Timeout&topic=orders.dlq", "/audit?topic=orders.dlq"} {
		shown := b.get(path)
		require.Equal(t, http.StatusBadRequest, shown.Code, path)
		require.Contains(t, shown.text, "created_from is no time", path)
		require.Contains(t, shown.text, `value="orders.dlq"`, path)
		require.NotContains(t, shown.text, "matches.", path)
		require.NotContains(t, shown.text, `id="operations"`, "a list that no filter selects is not read again")
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

func TestAnArchivedMessageHasAllThatALiveOneHas(t *testing.T) {
	t.Parallel()
	m := letter(func(m *client.MessageDetail) {
		m.Status, m.Resolution, m.PurgeAt = client.StatusDEAD, new(client.ResolutionExhausted), new(time.Date(2027, 2, 20, 0, 0, 0, 0, time.UTC))
		m.StackTrace, m.OwnLines = new("a.Outer: outer\n\tat shop.A.run(A.java:1)\nCaused by: b.Root: inner\n\tat java.base/java.lang.Thread.run(Thread.java:9)\n"), new([]int64{1})
		m.Key, m.DecodedKey = bytesOf("\x00\x00\x00\x00\x01x"), &client.MessageDetail_DecodedKey{Payload: json.RawMessage(`{"key":"decoded"}`)}
		m.Headers, m.TraceID = client.Headers{header("kafka_dlt-original-partition", "\x00\x00\x00\x02")}, new("0af7")
		m.Attempts = []client.MessageDetail_Attempts{{Number: 3, Result: "failed", Error: new("no leader")}}
	})
	b := openMessage(t, m)
	b.api["GET /api/v1/dlq/messages/"+messageID+"/chain"] = client.Chain{Hops: []client.Hop{{
		ID: messageID, Status: client.StatusDEAD, Archived: true, Attempts: []client.Hop_Attempts{{Number: 3, Outcome: "failed", Error: new("no leader")}},
	}}}
	shown := b.get("/archive/" + messageID + "?view=hex").text
	for _, part := range []string{
		"Exhausted: all its retries failed.", `<time datetime="2027-02-20T00:00:00.000Z"`, "<bdi class=\"mono\">b.Root: inner</bdi>", "1 frame of libraries",
		`href="/archive/` + messageID + `?view=text#value"`, "|{&#34;n&#34;:90071992547|", "&#34;decoded&#34;", "int32", "no leader",
		`href="/audit?target_id=` + messageID + `"`, `href="/archive?topic=orders.dlq.v1&amp;trace_id=0af7"`, "dlqctl archive get " + messageID,
	} {
		require.Contains(t, shown, part)
	}
	require.NotContains(t, shown, "/messages/"+messageID+"/", "an archived message is neither sent nor changed")
}
