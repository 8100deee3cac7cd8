package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// series reads arrivals by each step, before and after the latest changes are added to the sums. It returns the
// topics, and the number of arrivals of each topic in all buckets.
func (f fixture) series(q dlq.SeriesQuery) (arrived []string, counts []int64) {
	f.t.Helper()
	for round := range 2 {
		for _, q.Step = range dlq.Steps {
			now, err := f.Now(f.t.Context())
			require.NoError(f.t, err)
			q.From, q.To = time.Time{}, time.Time{}
			q.Fit(now)
			found, err := f.Series(f.t.Context(), q)
			require.NoError(f.t, err)
			var names []string
			var all []int64
			for _, s := range found {
				require.Len(f.t, s.Buckets, q.Buckets())
				sum := int64(0)
				for _, n := range s.Buckets {
					sum += n
				}
				require.Equal(f.t, sum, s.Arrived)
				name := "the rest"
				if s.Topic != nil {
					name = *s.Topic
				}
				names, all = append(names, name), append(all, sum)
			}
			if round > 0 || q.Step != dlq.Steps[0] {
				require.Equal(f.t, arrived, names)
				require.Equal(f.t, counts, all, "by %s", q.Step)
			}
			arrived, counts = names, all
		}
		require.NoError(f.t, f.FoldCounts(f.t.Context()))
	}
	return arrived, counts
}

var series = map[string]func(*testing.T, fixture){
	"arrivals are counted by topic and group, also of deleted messages": func(t *testing.T, f fixture) {
		require.Empty(t, first(f.series(dlq.SeriesQuery{})))
		inShop := dlqtest.FromTopic("shop.dlq", "shop")
		stored := f.store(dlqtest.Arrival(noPrice), dlqtest.Arrival(noPrice, inShop), dlqtest.Arrival(noStock, inShop), dlqtest.Arrival(inShop))
		require.NoError(t, f.FoldCounts(t.Context()))
		require.NoError(t, f.Delete(t.Context(), nil, stored[3].ID))
		f.store(dlqtest.Arrival(noPrice))
		price := stored[0].GroupID
		for _, test := range []struct {
			query  dlq.SeriesQuery
			topics []string
			counts []int64
		}{
			{dlq.SeriesQuery{}, []string{"shop.dlq", "orders.dlq"}, []int64{3, 2}},
			{dlq.SeriesQuery{Topic: "shop.dlq"}, []string{"shop.dlq"}, []int64{3}},
			{dlq.SeriesQuery{Topic: "shop"}, []string{"shop.dlq"}, []int64{3}},
			{dlq.SeriesQuery{Topic: "x"}, nil, nil},
			{dlq.SeriesQuery{Group: price}, []string{"orders.dlq", "shop.dlq"}, []int64{2, 1}},
			{dlq.SeriesQuery{Group: price, Topic: "shop"}, []string{"shop.dlq"}, []int64{1}},
			{dlq.SeriesQuery{Group: dlq.NewID()}, nil, nil},
			{dlq.SeriesQuery{Within: "^(orders.*)$"}, []string{"orders.dlq"}, []int64{2}},
			{dlq.SeriesQuery{Within: "^(orders.*)$", Group: price}, []string{"orders.dlq"}, []int64{2}},
			{dlq.SeriesQuery{Within: "^(orders.*)$", Topic: "shop"}, nil, nil},
		} {
			topics, counts := f.series(test.query)
			require.Equal(t, test.topics, topics, "%+v", test.query)
			require.Equal(t, test.counts, counts, "%+v", test.query)
		}
	},

	"a copy does not arrive": func(t *testing.T, f fixture) {
		m := f.store(dlqtest.Arrival(noPrice))[0]
		f.retry(m.ID, dlq.ResultDelivered)
		_, err := f.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
		require.NoError(t, err)
		_, err = f.Restore(t.Context(), nil, m.ID)
		require.NoError(t, err)
		for _, q := range []dlq.SeriesQuery{{}, {Group: m.GroupID}} {
			_, counts := f.series(q)
			require.Equal(t, []int64{1}, counts)
		}
	},

	"the topics beyond the limit are added up": func(t *testing.T, f fixture) {
		var arrivals []dlq.Arrival
		for i := range dlq.MaxSeries + 2 {
			topic := "t-" + string(rune('a'+i))
			arrivals = append(arrivals, dlqtest.Arrival(dlqtest.FromTopic(topic+".dlq", topic)))
		}
		f.store(append(arrivals, dlqtest.Arrival(dlqtest.FromTopic("t-v.dlq", "t-v")))...)
		topics, counts := f.series(dlq.SeriesQuery{})
		require.Len(t, topics, dlq.MaxSeries+1)
		require.Equal(t, []string{"t-v.dlq", "t-a.dlq"}, topics[:2])
		require.Equal(t, "the rest", topics[dlq.MaxSeries])
		require.EqualValues(t, 2, counts[0])
		require.EqualValues(t, 2, counts[dlq.MaxSeries])
	},
}

func first(topics []string, _ []int64) []string { return topics }
