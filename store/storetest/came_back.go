package storetest

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// cameBackFrom is the arrival of a message that its consumer sent to the dead-letter topic
// again.
func cameBackFrom(m dlq.ID) dlq.Arrival {
	return dlqtest.Arrival(func(a *dlq.Arrival) { a.PreviousID, a.RetryCount = m, 1 })
}

var cameBack = map[string]func(*testing.T, fixture){
	"a message that came back is counted for the bulk retry that sent it": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(5)...)
		f.retry(stored[4].ID, dlq.ResultDelivered) // not of a bulk retry
		jobs := make([]dlq.BulkRetry, 2)
		for i, n := range []int{3, 1} {
			b := f.startBulk(dlqtest.Bulk("orders", 1))
			lane := dlqtest.Lane(b, 0)
			f.setStepLimit(b.ID, int64(n))
			page := f.tryClaim(lane).Page
			require.Len(t, page, n)
			f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
			jobs[i] = b
			if i == 0 { // the next one cannot start before
				f.end(b.ID, dlq.BulkCompleted)
			}
		}
		counts := func() []int64 { return []int64{f.bulk(jobs[0].ID).CameBack, f.bulk(jobs[1].ID).CameBack} }
		require.Equal(t, []int64{0, 0}, counts())

		first := cameBackFrom(stored[0].ID)
		f.store(first, dlqtest.Arrival(), cameBackFrom(stored[3].ID), cameBackFrom(dlq.NewID()), cameBackFrom(stored[4].ID))
		require.Equal(t, []int64{1, 1}, counts())

		n, err := f.StoreArrivals(t.Context(), []dlq.Arrival{first, first})
		require.NoError(t, err)
		require.Zero(t, n)
		require.Equal(t, []int64{1, 1}, counts(), "a duplicate does not count")

		twice := cameBackFrom(stored[1].ID)
		n, err = f.StoreArrivals(t.Context(), []dlq.Arrival{twice, twice})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, []int64{2, 1}, counts(), "nor does a duplicate in the same batch")

		f.end(jobs[1].ID, dlq.BulkCompleted)
		_, err = f.ArchiveBatch(t.Context(), 0, 100)
		require.NoError(t, err)
		late := cameBackFrom(stored[2].ID)
		f.store(late)
		require.Equal(t, []int64{3, 1}, counts(), "after the end, of an archived message")
		n, err = f.StoreArrivals(t.Context(), []dlq.Arrival{late})
		require.NoError(t, err)
		require.Zero(t, n)
		require.Equal(t, []int64{3, 1}, counts())
		require.EqualValues(t, 3, f.end(jobs[0].ID, dlq.BulkFailed).CameBack)
	},

	"a message that came back is counted once by concurrent writers": func(t *testing.T, f fixture) {
		const messages = 40
		f.store(dlqtest.Arrivals(messages)...)
		b := f.startBulk(dlqtest.Bulk("orders", 1))
		lane := dlqtest.Lane(b, 0)
		page := f.claimPage(lane)
		f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
		var arrivals []dlq.Arrival
		for _, e := range page {
			arrivals = append(arrivals, cameBackFrom(e.ID))
		}
		var group sync.WaitGroup
		failures := make(chan error, 4)
		for range 4 {
			group.Go(func() {
				for _, a := range arrivals {
					if _, err := f.StoreArrivals(t.Context(), []dlq.Arrival{a}); err != nil {
						failures <- err
						return
					}
				}
			})
		}
		group.Wait()
		close(failures)
		for err := range failures {
			require.NoError(t, err)
		}
		require.EqualValues(t, messages, f.bulk(b.ID).CameBack)
	},
}
