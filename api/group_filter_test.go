package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

func TestMessagesShowTheirGroupAndWhy(t *testing.T) {
	t.Parallel()
	w := start(t)
	id, alone := w.add(1, noPrice)[0], w.add(1)[0]
	group := w.groupOf(id.String())
	got := w.call(http.MethodGet, "/api/v1/dlq/messages/"+id.String())
	require.Equal(t, group, got.field(t, "group_id"))
	require.Equal(t, w.call(http.MethodGet, groupsPath+"/"+group).field(t, "grouped_by"), got.field(t, "grouped_by"))
	without := w.call(http.MethodGet, "/api/v1/dlq/messages/"+alone.String()).decode(t)
	require.Nil(t, without["group_id"])
	require.NotContains(t, without, "grouped_by")
	listed := w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1").field(t, "messages").([]any)
	require.Nil(t, listed[0].(map[string]any)["group_id"])
	require.Equal(t, group, listed[1].(map[string]any)["group_id"])
}

func TestAListIsFilteredByGroup(t *testing.T) {
	t.Parallel()
	w := start(t)
	ids := w.add(2, noPrice)
	w.add(3, noStock)
	w.add(1)
	path := "/api/v1/dlq/orders.dlq.v1?group=" + w.groupOf(ids[0].String())
	got := w.call(http.MethodGet, path+"&page_size=1")
	require.EqualValues(t, 2, got.field(t, "pagination", "total_count"))
	next := w.call(http.MethodGet, path+"&page_size=1&cursor="+got.field(t, "pagination", "next_cursor").(string))
	require.Equal(t, ids[0].String(), next.field(t, "messages").([]any)[0].(map[string]any)["id"])
	require.Empty(t, w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1?group="+someID).field(t, "messages"))
	for _, group := range []string{"", "x", strings.Repeat("a", 36), dlq.ID{}.String()} {
		_, fields := requireError(t, w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1?group="+group), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, []string{"group"}, fields, group)
	}
}

func TestABulkRetrySendsTheMessagesOfAGroup(t *testing.T) {
	t.Parallel()
	w := start(t)
	group := w.groupOf(w.add(2, noPrice)[0].String())
	other := w.add(1, noStock)[0]
	got := w.json(http.MethodPost, "/api/v1/jobs", `{"kind":"retry","topic":"orders.dlq.v1","group":"`+group+`"}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.EqualValues(t, 2, got.field(t, "matched"))
	require.Equal(t, group, got.field(t, "filters", "group"))
	require.Equal(t, "PENDING", w.status(other))

	third := w.add(1, noPrice)[0]
	got = w.json(http.MethodPost, "/api/v1/dlq/orders.dlq.v1/retry-all", `{"group":"`+group+`"}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.EqualValues(t, 1, got.field(t, "retried"))
	require.Equal(t, "RESOLVED", w.status(third))
	require.Equal(t, "PENDING", w.status(other))
}

func TestABulkChangeChangesTheMessagesOfAGroup(t *testing.T) {
	t.Parallel()
	w := start(t)
	group := w.groupOf(w.add(2, noPrice)[0].String())
	other := w.add(1, noStock)[0]
	got := w.json(http.MethodPost, jobsPath, `{"kind":"dead","topic":"orders.dlq.v1","group":"`+group+`"}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.EqualValues(t, 2, got.field(t, "changed"))
	require.Equal(t, group, got.field(t, "filters", "group"))
	require.Equal(t, "PENDING", w.status(other))
}

// If the group were ignored, the request would send or change all messages.
func TestAnInvalidGroupChangesNothing(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1, noPrice)[0]
	for _, group := range []string{`""`, `"x"`, `null`, `7`, `["` + someID + `"]`, `"` + (dlq.ID{}).String() + `"`} {
		for body, path := range map[string]string{
			`{"kind":"retry","topic":"orders.dlq.v1","group":` + group + `}`:  jobsPath,
			`{"kind":"delete","topic":"orders.dlq.v1","group":` + group + `}`: jobsPath,
			`{"group":` + group + `}`: "/api/v1/dlq/orders.dlq.v1/retry-all",
		} {
			_, fields := requireError(t, w.json(http.MethodPost, path, body), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
			require.Equal(t, []string{"group"}, fields, body)
		}
	}
	_, fields := requireError(t, w.json(http.MethodPost, "/api/v1/dlq/orders.dlq.v1/retry-all", `{"status":"PENDING"}`), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	require.Equal(t, []string{"status"}, fields)
	require.Equal(t, "PENDING", w.status(id))
}

func TestAPlanCountsTheMessagesOfEachGroup(t *testing.T) {
	t.Parallel()
	w := start(t)
	price := w.groupOf(w.add(3, noPrice)[0].String())
	w.add(1)
	w.addDead(1, noStock)
	for i := range 21 {
		w.add(2, dlqtest.Cause(strings.Repeat("x", i+1)))
	}
	for _, kind := range []string{"retry", "dead"} {
		got := w.json(http.MethodPost, plansPath, `{"kind":"`+kind+`","topic":"orders.dlq.v1"}`)
		require.Equal(t, http.StatusOK, got.status, got.body)
		groups := got.field(t, "by_group").([]any)
		require.Len(t, groups, 20)
		require.Equal(t, map[string]any{"id": price, "title": "no price", "count": 3.0}, groups[0])
		require.EqualValues(t, 3, got.field(t, "more_groups"))
	}
	got := w.json(http.MethodPost, plansPath, `{"kind":"revive","topic":"orders.dlq.v1"}`)
	require.Len(t, got.field(t, "by_group"), 1)
	require.EqualValues(t, 0, got.field(t, "more_groups"))
	got = w.json(http.MethodPost, plansPath, `{"kind":"retry","topic":"orders.dlq.v1","group":"`+price+`"}`)
	require.Equal(t, []any{map[string]any{"id": price, "title": "no price", "count": 3.0}}, got.field(t, "by_group"))
}

func TestAPlanCountsMessagesInNoGroup(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.add(2)
	got := w.json(http.MethodPost, plansPath, `{"kind":"retry","topic":"orders.dlq.v1"}`)
	require.Equal(t, []any{map[string]any{"id": nil, "title": "in no group", "count": 2.0}}, got.field(t, "by_group"))
}
