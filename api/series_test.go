package api_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

const seriesPath = "/api/v1/series"

// arrivals are the numbers of arrivals, by dead-letter topic.
func (w *world) arrivals(query string, headers ...string) map[string]float64 {
	w.t.Helper()
	got := w.call(http.MethodGet, seriesPath+"?"+query, headers...)
	require.Equal(w.t, http.StatusOK, got.status, got.body)
	found := map[string]float64{}
	for _, s := range got.field(w.t, "series").([]any) {
		found[s.(map[string]any)["dlq_topic"].(string)] = s.(map[string]any)["arrived"].(float64)
	}
	return found
}

func TestSeriesShowTheArrivalsOfADayWithEveryBucket(t *testing.T) {
	t.Parallel()
	w := start(t)
	group := strings.TrimPrefix(w.addGroup(2, noPrice), groupsPath+"/")
	w.add(1, noStock, inStock)
	for step, buckets := range map[string]int{"": 24, "step=hour": 24, "step=minute": 1440} {
		for query, want := range map[string]map[string]float64{
			"": {"orders.dlq.v1": 2, "stock.dlq": 1}, "topic=orders.dlq.v1": {"orders.dlq.v1": 2}, "topic=orders.v1": {"orders.dlq.v1": 2},
			"topic=x": {}, "group=" + group: {"orders.dlq.v1": 2}, "topic=stock&group=" + group: {}, "group=" + someID: {},
		} {
			require.Equal(t, want, w.arrivals(query+"&"+step), query+" "+step)
		}
		got := w.call(http.MethodGet, seriesPath+"?topic=stock&"+step)
		series := got.field(t, "series").([]any)[0].(map[string]any)["buckets"].([]any)
		require.Len(t, series, buckets)
		require.Contains(t, series[buckets-2:], 1.0, "the last bucket, or the one before at the end of a minute")
	}
	now, err := w.store.Now(t.Context())
	require.NoError(t, err)
	got := w.call(http.MethodGet, seriesPath+"?step=minute&from="+url.QueryEscape(now.Add(-48*time.Hour).Format(time.RFC3339)))
	require.Len(t, got.field(t, "series").([]any)[0].(map[string]any)["buckets"], int(dlq.StepMinute.Kept()/time.Minute), "minutes are kept for a day")
}

func TestSeriesHaveOnlyTheTopicsThatOneMaySee(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	group := strings.TrimPrefix(w.addGroup(2, noPrice), groupsPath+"/")
	w.add(3, noPrice, inStock)
	hidden := strings.TrimPrefix(w.addGroup(1, noStock, inStock), groupsPath+"/")
	for range 2 { // first with changes that are not added up yet, then with sums only
		for query, want := range map[string]map[string]float64{
			"": {"orders.dlq.v1": 2}, "topic=stock": {}, "topic=stock.dlq": {}, "group=" + group: {"orders.dlq.v1": 2}, "group=" + hidden: {},
			"topic=stock&group=" + group: {},
		} {
			require.Equal(t, want, w.arrivals(query, bearer("viewer/orders.*")), query)
		}
		require.Equal(t, map[string]float64{"orders.dlq.v1": 2, "stock.dlq": 3}, w.arrivals("group="+group, bearer("viewer")))
		require.NoError(t, w.store.FoldCounts(t.Context()))
	}
}

func TestSeriesRefuseInvalidParameters(t *testing.T) {
	t.Parallel()
	w := start(t)
	for query, field := range map[string]string{
		"step=day": "step", "step=": "step", "step=hour&step=hour": "step", "topic=a%20b": "topic", "topic=": "topic", "group=x": "group",
		"group=00000000-0000-0000-0000-000000000000": "group", "from=yesterday": "from", "to=": "to", "limit=5": "limit",
		"from=2026-02-20T10:00:00Z&to=2026-02-20T09:00:00Z": "from", "from=9000-01-01T00:00:00Z": "from",
		"to=2020-01-01T00:00:00Z": "to", "from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z&step=minute": "from",
	} {
		message, fields := requireError(t, w.call(http.MethodGet, seriesPath+"?"+query), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, []string{field}, fields, query+": "+message)
	}
}
