package console

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/client"
)

const letterID = "550e8400-e29b-41d4-a716-446655440000"

// letters is an API with one message.
func letters() map[string]any {
	api := shop()
	next := "AgAB"
	api["GET /api/v1/dlq/orders.dlq"] = client.MessageList{
		Messages: []client.ListedMessage{{
			ID: letterID, DlqTopic: "orders.dlq", ErrorMessage: "<script>alert(1)</script>", Status: "PENDING", Payload: json.RawMessage(`{"n": 9007199254740993}`),
		}},
		Pagination: client.MessageList_Pagination{TotalCount: 10000, HasNext: true, NextCursor: &next},
	}
	return api
}

func TestEveryFilterOfTheAPIIsAFilterOfThePage(t *testing.T) {
	t.Parallel()
	params := reflect.TypeFor[client.ListMessagesParams]()
	for field := range params.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("form"), ",")
		switch name {
		case "", "page", "page_size", "cursor", "sort":
			require.False(t, isFilter(name))
		default:
			require.True(t, isFilter(name), name)
		}
	}
	for _, name := range []string{"header.tenant", "payload.lines.0.sku", "not.header.tenant", "not.payload.a"} {
		require.True(t, isFilter(name), name)
	}
	for _, name := range []string{"header.", "not.status", "not.ids", "not.verified", "span", "field"} {
		require.False(t, isFilter(name), name)
	}
}

func TestTheAPIGetsTheFiltersAsTheyAre(t *testing.T) {
	t.Parallel()
	asked := make(chan url.Values, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/api/v1/dlq/orders.dlq" || r.URL.Path == "/api/v1/archive/messages" {
			asked <- r.URL.Query()
		}
		_, _ = w.Write([]byte(`{"messages": []}`))
	}))
	t.Cleanup(server.Close)
	b := open(t, nil, func(o *Options) {
		o.Connect = func(client.TokenSource) (*client.Client, error) {
			return client.New(server.URL, client.Config{Retries: -1})
		}
	})
	b.headers[regionHeader] = "messages"
	query := url.Values{"status": {"PENDING,DEAD"}, "not.error": {"a", "b"}, "header.tenant": {"acme"}, "key": {""}}
	require.Equal(t, http.StatusOK, b.get("/topics/orders.dlq?span=month&sort=created_at&"+query.Encode()).Code)
	query.Set("sort", "created_at")
	query.Set("page_size", "50")
	require.Equal(t, query, <-asked)

	b.get("/topics/orders.dlq?tenant=X")
	require.Equal(t, "X", (<-asked).Get("tenant"), "the API refuses a parameter that is no filter")
	b.get("/archive?topic=orders.dlq&tenant=X")
	require.Equal(t, "X", (<-asked).Get("tenant"), "also for the archive")
}

func TestAFilterIsAChipThatCanBeRemoved(t *testing.T) {
	t.Parallel()
	page := open(t, letters()).get("/topics/orders.dlq?error=time&not.class=X&status=DEAD")
	require.Contains(t, page.text, "error contains “time”")
	require.Contains(t, page.text, "not: error class is “X”")
	require.Contains(t, page.text, `href="/topics/orders.dlq?not.class=X&amp;status=DEAD" aria-label="Remove this filter: error contains “time”"`)
	require.Contains(t, page.text, `href="/topics/orders.dlq?error=time&amp;not.class=X&amp;status=DEAD%2CPENDING"`, "a status more")
	require.Contains(t, page.text, `href="/topics/orders.dlq?error=time&amp;not.class=X"`, "no status")
}

func TestTheFormAddsAFilterToTheAddress(t *testing.T) {
	t.Parallel()
	b := open(t, letters())
	for form, want := range map[string]string{
		"error=a&field=class&value=X&not=1":                               "error=a&not.class=X",
		"error=a&field=error&value=b":                                     "error=b",
		"not.key=a&field=key&value=b&not=1":                               "not.key=a&not.key=b",
		"field=header&name=tenant&value=acme":                             "header.tenant=acme",
		"field=payload&name=lines.0.sku&value=7&not=1&span=month":         "not.payload.lines.0.sku=7&span=month",
		"field=verified%3Dno&value=&sort=created_at":                      "sort=created_at&verified=no",
		"field=key&value=":                                                "key=",
		"field=error&value=&add_created_from=2026-11-27T06:00":            "created_from=2026-11-27T06%3A00%3A00Z",
		"field=error&value=&add_created_to=2026-11-27T06:00:30&cursor=AA": "created_to=2026-11-27T06%3A00%3A30Z",
	} {
		require.Equal(t, "/topics/orders.dlq?"+want, b.get("/topics/orders.dlq?"+form).Header().Get("Location"), form)
	}
	require.Equal(t, "/topics/orders.dlq?error=a", b.get("/topics/orders.dlq?error=a&field=header&value=x").Header().Get("Location"))
	require.Contains(t, b.get("/topics/orders.dlq?error=a").text, "No filter was added")
}

func TestAllThatMatchIsAQueryForThePlan(t *testing.T) {
	t.Parallel()
	page := open(t, letters()).get("/topics/orders.dlq?error=time&header.a=1&sort=created_at")
	require.Contains(t, page.text, `href="/plans/new?error=time&amp;header.a=1&amp;kind=retry&amp;topic=orders.dlq">Plan a retry of all that match…`)
	require.Contains(t, page.text, "More than 10,000 messages match.")
	require.Contains(t, page.text, `href="/topics/orders.dlq?cursor=AgAB&amp;error=time&amp;header.a=1&amp;sort=created_at" rel="next"`)
}

func TestSelectedRowsLeadToTheirPlan(t *testing.T) {
	t.Parallel()
	b := open(t, letters())
	answer := b.post("/topics/orders.dlq/selected", url.Values{"kind": {"dead"}, "ids": {letterID, "b"}})
	require.Equal(t, "/plans/new?ids="+letterID+"%2Cb&kind=dead&topic=orders.dlq", answer.Header().Get("Location"))
}

func TestNothingSelectedIsNeverAll(t *testing.T) {
	t.Parallel()
	b := open(t, letters())
	answer := b.post("/topics/orders.dlq/selected", url.Values{"kind": {"delete"}, "back": {"/topics/orders.dlq?error=a"}})
	require.Equal(t, "/topics/orders.dlq?error=a", answer.Header().Get("Location"))
	require.Contains(t, b.get("/topics/orders.dlq?error=a").text, "Nothing was selected.")
	require.Empty(t, b.calls)
}

func TestWhoMayNotPlanSeesWhy(t *testing.T) {
	t.Parallel()
	api := letters()
	api["GET /api/v1/me"] = client.Me{Subject: "viewer"}
	page := open(t, api).get("/topics/orders.dlq")
	require.Contains(t, page.text, "<button disabled>Plan a retry of the whole topic…</button>")
	require.Contains(t, page.text, "You may not make plans: that needs the permission dlq:job:create.")
	require.NotContains(t, page.text, "/plans/new")
}

func TestStrangersTextsOfATopicStayText(t *testing.T) {
	t.Parallel()
	api := letters()
	api["GET /api/v1/dlq/<script>"] = api["GET /api/v1/dlq/orders.dlq"]
	b := open(t, api)
	for _, path := range []string{"/topics/orders.dlq?error=%3Cscript%3E&not.header.%3Cscript%3E=%3Cscript%3E%25d&verified=%25d", "/topics/%3Cscript%3E"} {
		page := b.get(path)
		require.Equal(t, http.StatusOK, page.Code)
		require.NotContains(t, page.text, "<script>")
		require.NotContains(t, page.text, "%!")
	}
	require.Contains(t, b.get("/topics/orders.dlq").text, "9007199254740993", "exact")
}

func TestFiltersThatTheAPIRefusesCanBeRemoved(t *testing.T) {
	t.Parallel()
	api := shop()
	api["GET /api/v1/dlq/orders.dlq"] = apiError{http.StatusBadRequest, "ERR_DLQ_INVALID", "origin_offset must be a number"}
	page := open(t, api).get("/topics/orders.dlq?origin_offset=x")
	require.Equal(t, http.StatusBadRequest, page.Code)
	require.Contains(t, page.text, "origin_offset must be a number")
	require.Contains(t, page.text, `href="/topics/orders.dlq" aria-label="Remove this filter: offset in the original topic is “x”"`)
	require.NotContains(t, page.text, "/plans/new")
}

func TestATopicWithoutMessagesIsAPage(t *testing.T) {
	t.Parallel()
	api := shop()
	api["GET /api/v1/dlq/none.dlq"] = client.MessageList{Pagination: client.MessageList_Pagination{TotalCountExact: true}}
	b := open(t, api)
	require.Contains(t, b.get("/topics/none.dlq").text, "No messages here.")
	require.Contains(t, b.get("/topics/none.dlq?error=a").text, "No message matches these filters")
	require.Equal(t, "/#topics", b.get("/topics").Header().Get("Location"))
}
