package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
)

func TestAGroupOfOtherTopicsDoesNotExist(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	hidden := w.addGroup(1, noStock, inStock)
	w.addGroup(1, noPrice)
	require.Equal(t, []string{"no price"}, w.titles("", 10, bearer("viewer/orders.*")))
	require.Empty(t, w.titles("topic=stock", 10, bearer("viewer/orders.*")))
	for _, got := range []response{
		w.call(http.MethodGet, hidden, bearer("viewer/orders.*")),
		w.json(http.MethodPatch, hidden, `{"owner":"eve"}`, bearer("operator/orders.*")),
		w.call(http.MethodPost, hidden+"/fixed", bearer("operator/orders.*")),
	} {
		requireError(t, got, http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
		require.NotContains(t, got.body, "stock")
	}
	require.Equal(t, "refused", w.operations(bearer("admin"))[0]["outcome"])
	require.Nil(t, w.call(http.MethodGet, hidden, bearer("viewer")).field(t, "owner"))
}

func TestAGroupCountsOnlyWhatOneMaySee(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t, func(o *api.Options) { o.Ends = &ends{offsets: map[string][]int64{"orders.v1": {1}, "stock": {1}}} })
	path := w.addGroup(2, noPrice)
	w.add(3, noPrice, inStock)
	require.Equal(t, http.StatusOK, w.call(http.MethodPost, path+"/fixed", bearer("operator")).status)
	w.add(1, noPrice, inStock, at(0, 5, time.Time{}))

	whole := w.call(http.MethodGet, path, bearer("viewer")).decode(t)
	require.EqualValues(t, 6, whole["arrived"])
	require.NotNil(t, whole["regressed_by"])
	got := w.call(http.MethodGet, path, bearer("viewer/orders.*"))
	require.NotContains(t, got.body, "stock")
	part := got.decode(t)
	require.Equal(t, map[string]any{"PENDING": 2.0, "RETRYING": 0.0, "RESOLVED": 0.0, "DEAD": 0.0}, part["counts"])
	for _, name := range []string{"arrived", "last_hour", "regressed_by"} {
		require.Nil(t, part[name], name)
	}
	require.Equal(t, []any{part}, w.call(http.MethodGet, groupsPath, bearer("viewer/orders.*")).field(t, "groups"))
}

// The state of a group applies to all its messages.
func TestAChangeOfAGroupNeedsThePermissionOnAllItsTopics(t *testing.T) {
	t.Parallel()
	e := &ends{offsets: map[string][]int64{"orders.v1": {1}}}
	w := startWithTokens(t, func(o *api.Options) { o.Ends = e })
	path := w.addGroup(1, noPrice)
	w.add(1, noPrice, inStock)
	require.NoError(t, w.store.FoldCounts(t.Context()))
	for token, named := range map[string]string{
		"operator/orders.*":                "every dead-letter topic of the group",
		"operator/stock*":                  "every dead-letter topic of the group",
		"operator/orders.*+viewer/stock*":  "stock.dlq",
		"operator/stock*+viewer/orders.*":  "orders.dlq.v1",
		"operator/stock*+viewer/no.such.*": "every dead-letter topic of the group",
	} {
		for _, got := range []response{w.json(http.MethodPatch, path, `{"owner":"eve"}`, bearer(token)), w.call(http.MethodPost, path+"/fixed", bearer(token))} {
			message, _ := requireError(t, got, http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
			require.Contains(t, message, "dlq:group:update on topic "+named, token)
		}
		require.Equal(t, "refused", w.operations(bearer("admin"))[0]["outcome"], token)
	}
	require.Empty(t, e.asked, "Kafka is not asked for a request that is refused")
	require.Nil(t, w.call(http.MethodGet, path, bearer("viewer")).field(t, "owner"))
	for _, token := range []string{"operator", "operator/orders.*+operator/stock*"} {
		require.Equal(t, http.StatusOK, w.json(http.MethodPatch, path, `{"owner":"ann"}`, bearer(token)).status, token)
	}
	got := w.call(http.MethodPost, path+"/fixed", bearer("operator/orders.*+operator/stock*"))
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.NotContains(t, got.body, `"offset"`, "headers can name any topic")
}
