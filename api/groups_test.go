package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/dlq/fingerprint"
	"dlqmanager/internal/dlqtest"
)

const groupsPath = "/api/v1/groups"

var (
	noPrice = dlqtest.Cause("no price")
	noStock = dlqtest.Cause("no stock")
	inStock = dlqtest.FromTopic("stock.dlq", "stock")
)

// groupOf is the id of the group of a message.
func (w *world) groupOf(message string) string {
	w.t.Helper()
	id, err := dlq.ParseID(message)
	require.NoError(w.t, err)
	m, err := w.store.Message(w.t.Context(), id)
	require.NoError(w.t, err)
	require.False(w.t, m.GroupID.IsZero())
	return m.GroupID.String()
}

// addGroup stores n messages that have the same cause, and returns the path of their group.
func (w *world) addGroup(n int, change ...func(*dlq.Arrival)) string {
	w.t.Helper()
	return groupsPath + "/" + w.groupOf(w.add(n, change...)[0].String())
}

// titles lists the titles of groups. It reads all pages.
func (w *world) titles(query string, size int, headers ...string) (titles []string) {
	w.t.Helper()
	cursor := ""
	for range 50 {
		got := w.call(http.MethodGet, fmt.Sprintf("%s?%s&page_size=%d%s", groupsPath, query, size, cursor), headers...)
		require.Equal(w.t, http.StatusOK, got.status, got.body)
		for _, g := range got.field(w.t, "groups").([]any) {
			titles = append(titles, g.(map[string]any)["title"].(string))
		}
		next := got.field(w.t, "pagination", "next_cursor")
		require.Equal(w.t, next != nil, got.field(w.t, "pagination", "has_next"))
		if next == nil {
			return titles
		}
		cursor = "&cursor=" + next.(string)
	}
	require.Fail(w.t, "the list does not end")
	return nil
}

func TestAGroupShowsItsCauseItsMessagesAndItsState(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.addGroup(2, noPrice)
	path := w.addGroup(1, noPrice, inStock)
	dead := w.addDead(1, noPrice)[0]
	got := w.call(http.MethodGet, path)
	require.Equal(t, http.StatusOK, got.status, got.body)
	g := got.decode(t)
	require.Equal(t, "no price", g["title"])
	require.Equal(t, map[string]any{"version": float64(fingerprint.Version), "rule": "message", "scope": "pricing", "class": nil, "frame": nil, "message": "no price"}, g["grouped_by"])
	require.Equal(t, map[string]any{"PENDING": 3.0, "RETRYING": 0.0, "RESOLVED": 0.0, "DEAD": 1.0}, g["counts"])
	require.Equal(t, []any{
		map[string]any{"dlq_topic": "orders.dlq.v1", "original_topic": "orders.v1", "counts": map[string]any{"PENDING": 2.0, "RETRYING": 0.0, "RESOLVED": 0.0, "DEAD": 1.0}},
		map[string]any{"dlq_topic": "stock.dlq", "original_topic": "stock", "counts": map[string]any{"PENDING": 1.0, "RETRYING": 0.0, "RESOLVED": 0.0, "DEAD": 0.0}},
	}, g["topics"])
	require.EqualValues(t, 4, g["arrived"])
	require.EqualValues(t, 4, g["last_hour"])
	require.Equal(t, map[string]any{"message_id": dead.String()}, g["sample"])
	require.Equal(t, "open", g["state"])
	for _, name := range []string{"owner", "ticket", "note", "state_reason", "hold", "regressed_by"} {
		require.Nil(t, g[name], name)
	}
	listed := w.call(http.MethodGet, groupsPath)
	require.Equal(t, []any{g}, listed.field(t, "groups"))
}

func TestGroupsAreListedInEachOrderPageByPage(t *testing.T) {
	t.Parallel()
	w := start(t)
	for i, n := range []int{2, 1, 4} {
		w.addGroup(n, dlqtest.Cause(fmt.Sprint(i)))
	}
	w.addGroup(1, dlqtest.Cause("0"))
	for size := 1; size <= 4; size++ {
		require.Equal(t, []string{"2", "1", "0"}, w.titles("", size))
		require.Equal(t, []string{"2", "1", "0"}, w.titles("sort=first_seen", size))
		require.Equal(t, []string{"0", "2", "1"}, w.titles("sort=last_seen", size))
		require.Equal(t, []string{"2", "0", "1"}, w.titles("sort=pending", size))
	}
}

func TestGroupsAreSelectedByTopicAndState(t *testing.T) {
	t.Parallel()
	w := start(t)
	price := w.addGroup(1, noPrice)
	w.addGroup(1, noStock, inStock)
	require.Equal(t, http.StatusOK, w.json(http.MethodPatch, price, `{"state":"held","until":{"count":5}}`).status)
	require.NoError(t, w.store.FoldCounts(t.Context()))
	for query, want := range map[string][]string{
		"topic=orders.dlq.v1": {"no price"}, "topic=orders.v1": {"no price"}, "topic=stock": {"no stock"}, "topic=x": nil,
		"state=held": {"no price"}, "state=open": {"no stock"}, "state=fixed": nil, "state=open&topic=stock.dlq": {"no stock"}, "state=held&topic=stock": nil,
	} {
		require.Equal(t, want, w.titles(query, 10), query)
	}
}

func TestAListOfGroupsRefusesInvalidParameters(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.addGroup(1, noPrice)
	w.addGroup(1, noStock)
	got := w.call(http.MethodGet, groupsPath+"?page_size=1&sort=pending")
	cursor := got.field(t, "pagination", "next_cursor").(string)
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, groupsPath+"?sort=pending&cursor="+cursor).status)
	ofMessages := "v7YpVQAGSz7nPzoAAAAAAAAAAII"
	for query, field := range map[string]string{
		"sort=name": "sort", "sort=": "sort", "state=OPEN": "state", "state=": "state", "topic=a%20b": "topic", "page_size=0": "page_size", "page_size=201": "page_size",
		"owner=ann": "owner", "group=x": "group", "sort=pending&sort=pending": "sort", "cursor=x": "cursor", "cursor=" + ofMessages: "cursor",
		"cursor=" + cursor: "cursor", "sort=last_seen&cursor=" + cursor: "cursor", "sort=pending&topic=orders.v1&cursor=" + cursor: "cursor",
		"sort=pending&state=open&cursor=" + cursor: "cursor", "sort=pending&cursor=" + url.QueryEscape(cursor+"\n"): "cursor",
	} {
		_, fields := requireError(t, w.call(http.MethodGet, groupsPath+"?"+query), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Contains(t, fields, field, query)
	}
}

func TestAnUnknownGroupIsNotFound(t *testing.T) {
	t.Parallel()
	w := start(t)
	path := groupsPath + "/" + someID
	for _, got := range []response{w.call(http.MethodGet, path), w.json(http.MethodPatch, path, `{"owner":"ann"}`), w.call(http.MethodPost, path+"/fixed")} {
		message, _ := requireError(t, got, http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
		require.Equal(t, "group not found: "+someID+"; a group without messages is removed a month after its last arrival, or when its topic has too many groups", message)
	}
	for _, got := range []response{w.call(http.MethodGet, groupsPath+"/x"), w.json(http.MethodPatch, groupsPath+"/x", `{}`), w.call(http.MethodPost, groupsPath+"/x/fixed")} {
		requireError(t, got, http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	}
}

func TestOperatorsNoteWhoOwnsAGroup(t *testing.T) {
	t.Parallel()
	w := start(t)
	path := w.addGroup(1, noPrice)
	got := w.json(http.MethodPatch, path, `{"owner":"ann","ticket":"https://tickets.example.com/1","note":"the list lacks gift cards","reason":"triage"}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, "ann", got.field(t, "owner"))
	require.Equal(t, "https://tickets.example.com/1", got.field(t, "ticket"))
	require.Equal(t, "the list lacks gift cards", got.field(t, "note"))
	require.Equal(t, "open", got.field(t, "state"))

	got = w.json(http.MethodPatch, path, `{"owner":"","ticket":""}`)
	require.Nil(t, got.field(t, "owner"))
	require.Nil(t, got.field(t, "ticket"))
	require.Equal(t, "the list lacks gift cards", got.field(t, "note"), "fields that are not given stay")
	require.Equal(t, got.body, w.call(http.MethodGet, path).body)

	operation := w.operations()[1]
	require.Equal(t, "group", operation["target"])
	require.Equal(t, strings.TrimPrefix(path, groupsPath+"/"), operation["target_id"])
	require.Equal(t, "dlq:group:update", operation["action"])
	require.Equal(t, "orders.dlq.v1", operation["topic"])
	require.Equal(t, "triage", operation["reason"])
	require.Equal(t, "done", operation["outcome"])
	require.Equal(t, map[string]any{"owner": "ann", "ticket": "https://tickets.example.com/1", "note": "the list lacks gift cards"}, operation["detail"])
}

func TestAHeldGroupShowsItsConditions(t *testing.T) {
	t.Parallel()
	w := start(t)
	path := w.addGroup(1, noPrice)
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	got := w.json(http.MethodPatch, path, `{"state":"held","until":{"at":"`+at.Format(time.RFC3339)+`","count":3,"rate":100}}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, "held", got.field(t, "state"))
	require.Equal(t, map[string]any{"until": at.Format("2006-01-02T15:04:05.000") + "+00:00", "count": 3.0, "rate": 100.0}, got.field(t, "hold"))
	require.Contains(t, w.operations()[0]["detail"], "until")
	w.add(1, noPrice)
	require.EqualValues(t, 2, w.call(http.MethodGet, path).field(t, "hold", "count"), "how many may still arrive")

	got = w.json(http.MethodPatch, path, `{"state":"held","until":{"rate":1e2}}`)
	require.Equal(t, map[string]any{"until": nil, "count": nil, "rate": 100.0}, got.field(t, "hold"), "a new hold replaces the one before")
	got = w.json(http.MethodPatch, path, `{"state":"open"}`)
	require.Equal(t, "open", got.field(t, "state"))
	require.Nil(t, got.field(t, "hold"))
}

func TestAnInvalidChangeOfAGroupChangesNothing(t *testing.T) {
	t.Parallel()
	w := start(t)
	path := w.addGroup(1, noPrice)
	before := w.call(http.MethodGet, path).body
	at := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	for body, field := range map[string]string{
		"": "body", `{}`: "body", `{"reason":"x"}`: "body", `[]`: "body", `{"owner":null}`: "owner", `{"name":"x"}`: "name",
		`{"owner":"` + strings.Repeat("é", 201) + `"}`: "owner", `{"note":"` + strings.Repeat("x", 2001) + `"}`: "note", `{"note":"a\u0000b"}`: "note",
		`{"ticket":"SHOP-17"}`: "ticket", `{"ticket":"javascript:alert(1)"}`: "ticket", `{"ticket":"https://"}`: "ticket", `{"ticket":"//tickets.example.com"}`: "ticket",
		`{"ticket":"ftp://tickets.example.com/1"}`: "ticket", `{"ticket":"https://tickets.example.com/` + strings.Repeat("x", 1000) + `"}`: "ticket",
		`{"owner":"ann","reason":"` + strings.Repeat("x", 1001) + `"}`: "reason",
		`{"state":"fixed"}`: "state", `{"state":"HELD"}`: "state", `{"state":7}`: "state", `{"state":"held"}`: "until", `{"until":{"count":5}}`: "until",
		`{"state":"open","until":{"count":5}}`: "until", `{"state":"held","until":{}}`: "until.at", `{"state":"held","until":7}`: "until",
		`{"state":"held","until":{"count":0}}`: "until.count", `{"state":"held","until":{"count":-1}}`: "until.count", `{"state":"held","until":{"rate":1.5}}`: "until.rate",
		`{"state":"held","until":{"rate":1000000001}}`: "until.rate", `{"state":"held","until":{"for":"1h"}}`: "until.for",
		`{"state":"held","until":{"at":"tomorrow"}}`: "until.at", `{"state":"held","until":{"at":"` + at(-time.Minute) + `"}}`: "until.at",
		`{"state":"held","until":{"at":"` + at(400*24*time.Hour) + `","count":1}}`: "until.at",
	} {
		_, fields := requireError(t, w.json(http.MethodPatch, path, body), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, []string{field}, fields, body)
	}
	require.Equal(t, before, w.call(http.MethodGet, path).body)
	require.Empty(t, w.operations())
}
