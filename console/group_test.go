package console

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/client"
)

const (
	groupID   = "5f2b1c9e-7a41-8d3f-9c0e-4b6a2d8e1f70"
	sampleID  = "550e8400-e29b-41d4-a716-446655440000"
	groupPath = "/groups/" + groupID
)

// aGroup is an open cause with messages in one topic.
func aGroup(change ...func(*client.Group)) client.Group {
	g := client.Group{
		ID: groupID, Title: "shop.PriceMissing: shop.Billing.price", State: "open", StateAt: noon, FirstSeen: noon, LastSeen: new(noon.Add(time.Minute)),
		GroupedBy: client.GroupedBy{Version: 4, Rule: "frame", Scope: "billing", Class: new("shop.PriceMissing"), Frame: new("shop.Billing.price")},
		Counts:    client.GroupCounts{PENDING: 1140, DEAD: 8}, Arrived: new(int64(1163)), LastHour: new(int64(20)),
		Topics: []client.Group_Topics{{DlqTopic: "orders.dlq", OriginalTopic: "orders", Counts: client.GroupCounts{PENDING: 1140, DEAD: 8}}},
		Sample: &client.Group_Sample{MessageID: sampleID},
	}
	for _, f := range change {
		f(&g)
	}
	return g
}

func aSample() client.MessageDetail {
	return client.MessageDetail{
		ID: sampleID, DlqTopic: "orders.dlq", OriginalTopic: "orders", Status: "PENDING", ErrorMessage: "Listener failed", CreatedAt: noon,
		Attempts: []client.MessageDetail_Attempts{{Number: 1, Error: new("first retry: away")}, {Number: 2, Error: new("second retry: too large")}},
		StackTrace: new("spring.ListenerException: Listener failed\n\tat spring.Listener.run(Listener.java:7)\n" +
			"Caused by: shop.PriceMissing: no price of <b>SKU-1</b>\n\tat shop.Billing.price(Billing.java:42)\n"),
		OwnLines: new([]int64{3}), Headers: client.Headers{}, Payload: json.RawMessage("null"),
	}
}

// groupAPI answers what the page of a cause reads.
func groupAPI(g client.Group) map[string]any {
	return map[string]any{
		"GET /api/v1/groups/" + groupID: g, "GET /api/v1/dlq/messages/" + sampleID: aSample(),
		"GET /api/v1/series": client.SeriesList{Step: "hour", From: noon, To: noon.Add(2 * time.Hour), Series: []client.SeriesList_Series{
			{DlqTopic: new("orders.dlq"), Arrived: 1163, Buckets: []int64{1100, 63}}}},
		"GET /api/v1/jobs":  map[string]any{"jobs": []any{}, "pagination": client.Pagination{}},
		"GET /api/v1/audit": map[string]any{"operations": []any{}, "pagination": client.Pagination{}},
	}
}

// seenIn returns the hidden field of the forms of a page.
func seenIn(t *testing.T, page page) string {
	t.Helper()
	match := regexp.MustCompile(`name="seen" value="([^"]+)"`).FindStringSubmatch(page.text)
	require.NotNil(t, match)
	return match[1]
}

func TestTheListOfCausesKeepsItsFiltersOnTheNextPage(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]any{"GET /api/v1/groups": client.GroupList{
		Groups:     []client.Group{aGroup(func(g *client.Group) { g.Title, g.Owner = "<script>alert(1)</script>", new("ann") })},
		Pagination: client.Pagination{HasNext: true, NextCursor: new("next")},
	}, "GET /api/v1/dlq": client.Topics{Topics: []client.Topics_Topics{{DlqTopic: "orders.dlq"}}}})
	b.headers["Accept-Language"] = "en"
	list := b.get("/groups?state=open&sort=pending&topic=orders.dlq&cursor=here").text
	require.Contains(t, list, "/groups?cursor=next&amp;sort=pending&amp;state=open&amp;topic=orders.dlq")
	require.Contains(t, list, `href="/groups?sort=pending&amp;state=open&amp;topic=orders.dlq">First page`)
	require.Contains(t, list, `href="`+groupPath+`"`)
	require.Contains(t, list, "1,140")
	require.Contains(t, list, "<bdi>ann</bdi>")
	require.NotContains(t, list, "<script>alert")
}

func TestAnEmptyListOfCausesSaysWhy(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]any{"GET /api/v1/groups": client.GroupList{Groups: []client.Group{}}})
	require.Contains(t, b.get("/groups").text, "No dead letters, so no causes.")
	require.Contains(t, b.get("/groups?state=held").text, "No cause is like that.")
}

func TestThePageOfACauseShowsTheLastErrorFirst(t *testing.T) {
	t.Parallel()
	text := open(t, groupAPI(aGroup())).get(groupPath).text
	last, consumer := strings.Index(text, "second retry: too large"), strings.Index(text, "<h3>Error as the consumer reported it</h3>")
	require.Positive(t, last)
	require.Less(t, last, consumer)
	require.NotContains(t, text, "first retry")
	require.Contains(t, text, `<h3>Root cause</h3><pre class="short">shop.PriceMissing: no price of &lt;b&gt;SKU-1&lt;/b&gt;</pre>`)
	require.Contains(t, text, "<pre class=\"short\">shop.Billing.price(Billing.java:42)\n")
	require.Contains(t, text, `<pre class="frames" id="frames-0-0">at shop.Billing.price(Billing.java:42)`)
	require.Contains(t, text, `href="/messages/`+sampleID+`"`)
	require.Contains(t, text, `href="/plans/new?group=`+groupID+`&amp;kind=retry&amp;topic=orders.dlq"`)
	require.Contains(t, text, "1,163 in all.")
}

func TestThePageOfACauseNamesTheJobsThatNameIt(t *testing.T) {
	t.Parallel()
	api := groupAPI(aGroup())
	job := map[string]any{"id": "job-1", "kind": "retry", "topic": "orders.dlq", "state": "COMPLETED", "started_at": noon, "matched": 9,
		"retried": 8, "came_back": 7, "filters": map[string]any{"group": groupID}}
	other := map[string]any{"id": "job-2", "kind": "dead", "topic": "orders.dlq", "state": "COMPLETED", "started_at": noon, "filters": map[string]any{}}
	api["GET /api/v1/jobs"] = map[string]any{"jobs": []any{job, other}, "pagination": client.Pagination{}}
	api["GET /api/v1/groups/"+groupID] = aGroup(func(g *client.Group) { g.Topics[0].OriginalTopic = "" })
	text := open(t, api).get(groupPath).text
	require.Contains(t, text, `href="/jobs/job-1"`)
	require.NotContains(t, text, `href="/jobs/job-2"`)
	require.Contains(t, text, "1 other job of its topics may have sent messages of it too")
}

func TestAPartThatCannotBeReadDoesNotHideTheRest(t *testing.T) {
	t.Parallel()
	api := groupAPI(aGroup())
	for _, path := range []string{"GET /api/v1/series", "GET /api/v1/jobs", "GET /api/v1/audit"} {
		api[path] = apiError{http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE", "away: " + path}
	}
	delete(api, "GET /api/v1/dlq/messages/"+sampleID)
	answer := open(t, api).get(groupPath)
	require.Equal(t, http.StatusOK, answer.Code)
	for _, text := range []string{
		"away: GET /api/v1/series", "away: GET /api/v1/jobs", "away: GET /api/v1/audit", "The sample was archived or deleted a moment ago.", "1,140",
	} {
		require.Contains(t, answer.text, text)
	}
}

func TestNumbersThatOneMayNotKnowAreNoZeros(t *testing.T) {
	t.Parallel()
	text := open(t, groupAPI(aGroup(func(g *client.Group) { g.Arrived, g.LastHour, g.LastSeen, g.Sample = nil, nil, nil, nil }))).get(groupPath).text
	require.Contains(t, text, "Unknown: the cause also has messages in topics that you may not see.")
	require.Contains(t, text, "Whether it still arrives is unknown")
	require.Contains(t, text, "All its messages were archived or deleted.")
}

func TestOnlyWebAddressesOfTicketsAreLinks(t *testing.T) {
	t.Parallel()
	text := open(t, groupAPI(aGroup(func(g *client.Group) { g.Ticket = new("javascript:alert(1)") }))).get(groupPath).text
	require.NotContains(t, text, `href="javascript`)
	require.NotContains(t, text, `rel="noreferrer noopener"`)
	text = open(t, groupAPI(aGroup(func(g *client.Group) { g.Ticket = new("https://tickets.example.com/1?a=b") }))).get(groupPath).text
	require.Contains(t, text, `<a href="https://tickets.example.com/1?a=b" rel="noreferrer noopener">`)
}

func TestARegressionIsSaidFirst(t *testing.T) {
	t.Parallel()
	text := open(t, groupAPI(aGroup(func(g *client.Group) {
		g.RegressedBy, g.StateReason = new(sampleID), new("regression: a message that was written after the fix has failed")
		g.StateAt = noon.Add(time.Hour)
	}))).get(groupPath).text
	require.Contains(t, text, "A record that was written after the fix has failed in the same way.")
	require.Contains(t, text, "The message that came back")
	require.Contains(t, text, "Came back after the fix", "as a mark of the chart")
	require.Contains(t, text, "<bdi>by itself</bdi>", "nobody has decided it")
}

func TestAWatcherMayLookButNotDecide(t *testing.T) {
	t.Parallel()
	api := groupAPI(aGroup())
	api["GET /api/v1/me"] = client.Me{Subject: "eve", Routes: []client.Me_Routes{}}
	text := open(t, api).get(groupPath).text
	require.Contains(t, text, "needs the permission dlq:group:update")
	require.Contains(t, text, `<button class="main" disabled>Hold this cause</button>`)
	require.Contains(t, text, "<button disabled>Retry this cause…</button>")
	require.NotContains(t, text, "/plans/new")
	require.Contains(t, text, "You may not read the audit")
}

func TestArrivalIsJudgedByTheNewestMessage(t *testing.T) {
	t.Parallel()
	for age, want := range map[time.Duration]pulse{time.Minute: pulseArriving, 20 * time.Minute: pulseSlower, 2 * time.Hour: pulseOver} {
		require.Equal(t, want, pulseOf(new(noon.Add(-age)), noon))
	}
	require.Equal(t, pulseUnknown, pulseOf(nil, noon))
}

func TestAHugeErrorShowsItsBeginning(t *testing.T) {
	t.Parallel()
	api := groupAPI(aGroup())
	huge := aSample()
	huge.ErrorMessage = strings.Repeat("é", 5<<20)
	huge.StackTrace = new(strings.Repeat("at x.y(z:1)\n", 1<<18))
	api["GET /api/v1/dlq/messages/"+sampleID] = huge
	text := open(t, api).get(groupPath).text
	require.Less(t, len(text), 100<<10)
	require.Contains(t, text, "The rest of the stack trace is left out here.")
}

func TestCharactersThatHideOrTurnTextAreShownAsSigns(t *testing.T) {
	t.Parallel()
	const hostile = "a\u202ebc\x1b[31md\u2066"
	g := aGroup(func(g *client.Group) {
		g.Title, g.Owner, g.Note, g.StateReason = hostile, new(hostile), new(hostile), new(hostile)
		g.GroupedBy.Message = new(hostile)
	})
	api := groupAPI(g)
	sample := aSample()
	sample.ErrorMessage, sample.Attempts[1].Error, sample.StackTrace = hostile, new(hostile), new(hostile+"\n\tat shop.Billing.price("+hostile+")")
	api["GET /api/v1/dlq/messages/"+sampleID] = sample
	api["GET /api/v1/groups"] = client.GroupList{Groups: []client.Group{g}}
	api["GET /api/v1/dlq"] = client.Topics{}
	b := open(t, api)
	forms := regexp.MustCompile(`(?s)<textarea.*?</textarea>| value="[^"]*"`) // forms send back the stored texts unchanged
	for _, path := range []string{"/groups", groupPath} {
		page := forms.ReplaceAllString(b.get(path).text, "")
		require.Contains(t, page, `a\u{202E}bc\u{1B}[31md\u{2066}`)
		require.NotContains(t, page, "\u202e", path)
		require.NotContains(t, page, "\x1b", path)
	}
}

func TestEveryNameOfStrangersIsMadeVisible(t *testing.T) {
	t.Parallel()
	names, err := templateFiles.ReadDir("templates")
	require.NoError(t, err)
	for _, name := range names {
		content, err := templateFiles.ReadFile("templates/" + name.Name())
		require.NoError(t, err)
		for _, bdi := range regexp.MustCompile(`<bdi[^>]*>\{\{[^}]*\}\}`).FindAllString(string(content), -1) {
			require.Regexp(t, `visible|template "topic-of"`, bdi, name.Name())
		}
	}
}
