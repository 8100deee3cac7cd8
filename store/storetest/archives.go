package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

var archives = map[string]func(*testing.T, fixture){
	"only RESOLVED and DEAD messages are archived, a batch at a time": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(7)...)
		f.claim(stored[0].ID)
		for _, m := range stored[1:4] {
			f.retry(m.ID, dlq.ResultDelivered)
		}
		for _, m := range stored[4:6] {
			f.retry(m.ID, dlq.ResultRejected)
		}
		var moved []int64
		for range 4 {
			n, err := f.ArchiveBatch(t.Context(), 0, 2)
			require.NoError(t, err)
			moved = append(moved, n)
		}
		require.Equal(t, []int64{2, 2, 1, 0}, moved)
		page := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 10})
		require.Equal(t, []dlq.ID{stored[6].ID, stored[0].ID}, ids(page.Messages))
		_, err := f.Message(t.Context(), stored[1].ID)
		require.ErrorIs(t, err, dlq.ErrNotFound)
	},

	"messages that are too new are neither archived nor purged": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrival(dlqtest.Retries(3, 3)))
		moved, err := f.ArchiveBatch(t.Context(), time.Hour, 10)
		require.NoError(t, err)
		require.Zero(t, moved)
		moved, err = f.ArchiveBatch(t.Context(), 0, 10)
		require.NoError(t, err)
		require.EqualValues(t, 1, moved)
		purged, err := f.PurgeBatch(t.Context(), time.Hour, 10)
		require.NoError(t, err)
		require.Zero(t, purged)
	},

	"a purged message is deleted completely and can be stored again": func(t *testing.T, f fixture) {
		arrivals := dlqtest.Arrivals(3, dlqtest.Retries(3, 3))
		f.store(arrivals...)
		alive := f.store(dlqtest.Arrival())[0]
		_, err := f.ArchiveBatch(t.Context(), 0, 10)
		require.NoError(t, err)
		var purged []int64
		for range 3 {
			n, err := f.PurgeBatch(t.Context(), 0, 2)
			require.NoError(t, err)
			purged = append(purged, n)
		}
		require.Equal(t, []int64{2, 1, 0}, purged)
		stored, err := f.StoreArrivals(t.Context(), []dlq.Arrival{dlqtest.Arrival(dlqtest.Source(arrivals[0].Source))})
		require.NoError(t, err)
		require.Equal(t, 1, stored, "its source went with it")
		require.Equal(t, alive, f.message(alive.ID))
	},
}
