package storetest

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// cameBackFrom is the arrival of the message m, which its consumer sent to the dead-letter topic
// again.
func cameBackFrom(m dlq.ID) dlq.Arrival {
	return dlqtest.Arrival(func(a *dlq.Arrival) { a.PreviousID, a.RetryCount = m, 1 })
}

var cameBack = map[string]func(*testing.T, fixture){
	"an id counts only in a letter from the message's target or of its dead-letter topic": func(t *testing.T, f fixture) {
		used := func(count int) func(*dlq.Arrival) { return func(a *dlq.Arrival) { a.RetryCount = count } }
		for name, c := range map[string]struct {
			requested, delivered string
			letter               func(*dlq.Arrival)
			counts               bool
		}{
			"of the same dead-letter topic":       {"", "orders", dlqtest.FromTopic("orders.dlq", "elsewhere"), true},
			"from the original topic":             {"", "orders", dlqtest.FromTopic("billing.dlq", "orders"), true},
			"of another team":                     {"", "orders", dlqtest.FromTopic("stock.dlq", "stock"), false},
			"from the target":                     {"orders.retry", "orders.retry", dlqtest.FromTopic("orders.retry.dlq", "orders.retry"), true},
			"from the original topic, redirected": {"orders.retry", "orders.retry", dlqtest.FromTopic("billing.dlq", "orders"), false},
			"before the delivery is recorded":     {"", "", dlqtest.FromTopic("billing.dlq", "orders"), true},
			"from the target, before that":        {"orders.retry", "", dlqtest.FromTopic("orders.retry.dlq", "orders.retry"), true},
			"of another team, before that":        {"orders.retry", "", dlqtest.FromTopic("billing.dlq", "orders"), false},
			"to an endpoint":                      {"", "http:shop", dlqtest.FromTopic("orders.dlq", "orders"), true},
			"to an endpoint, of another team":     {"", "http:shop", dlqtest.FromTopic("billing.dlq", "orders"), false},
			"with a suspicious origin": {"", "orders", func(a *dlq.Arrival) {
				a.DLQTopic, a.Origin.Topic, a.Suspicion = "billing.dlq", "orders", "odd"
			}, false},
			"suspicious, of the same dead-letter topic": {"", "orders", func(a *dlq.Arrival) { a.Suspicion = "odd" }, true},
		} {
			first := f.store(dlqtest.Arrival())[0]
			b := f.startBulk(dlqtest.Bulk("orders", 1, to(c.requested), dlqtest.Filter(dlq.Filter{Topic: "orders", IDs: []dlq.ID{first.ID}})))
			lane := f.openLane(dlqtest.Lane(b, 0))
			page := f.claimPage(lane)
			require.Len(t, page, 1, name)
			if c.delivered != "" {
				outcomes := dlqtest.Outcomes(page, dlq.ResultDelivered)
				outcomes[0].Acknowledgement = &dlq.Acknowledgement{Topic: c.delivered, Partition: dlq.AnyPartition}
				f.finalizePage(lane, outcomes)
			}
			letter := dlqtest.Arrival(c.letter, used(dlq.DefaultMaxRetries), func(a *dlq.Arrival) { a.PreviousID = first.ID })
			back := f.store(letter)[0]
			require.Equal(t, first.ID, back.PreviousID, "%s: a link", name)
			chain, err := f.Chain(t.Context(), first.ID)
			require.NoError(t, err)
			require.Len(t, chain.Hops, 2, name)
			if c.counts {
				require.EqualValues(t, 1, f.job(b.ID).CameBack, name)
				require.Equal(t, dlq.StatusDead, back.Status, name)
				require.Equal(t, dlq.DefaultMaxRetries, back.RetryCount, name)
			} else {
				require.Zero(t, f.job(b.ID).CameBack, name)
				require.Equal(t, dlq.StatusPending, back.Status, name)
				require.Zero(t, back.RetryCount, name)
			}
			if c.delivered != "" {
				require.Equal(t, c.counts, f.verdict(first.ID).Reason == dlq.ReasonCameBack, name)
			} else {
				f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
			}
			f.end(b.ID, dlq.JobCompleted)
		}
	},

	"a count without a known message is none": func(t *testing.T, f fixture) {
		m := f.store(cameBackFrom(dlq.NewID()))[0]
		require.Zero(t, m.RetryCount)
		require.False(t, m.PreviousID.IsZero())
	},

	"a message that came back is counted for the bulk retry that sent it": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(5)...)
		f.retry(stored[4].ID, dlq.ResultDelivered) // by a single retry
		jobs := make([]dlq.Job, 2)
		for i, n := range []int{3, 1} {
			b := f.startBulk(dlqtest.Bulk("orders", 1))
			lane := dlqtest.Lane(b, 0)
			f.setStepLimit(b.ID, int64(n))
			page := f.tryClaim(lane).Page
			require.Len(t, page, n)
			f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
			jobs[i] = b
			if i == 0 { // the next job cannot start while this job runs
				f.end(b.ID, dlq.JobCompleted)
			}
		}
		counts := func() []int64 { return []int64{f.job(jobs[0].ID).CameBack, f.job(jobs[1].ID).CameBack} }
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

		f.end(jobs[1].ID, dlq.JobCompleted)
		_, err = f.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 100)
		require.NoError(t, err)
		late := cameBackFrom(stored[2].ID)
		f.store(late)
		require.Equal(t, []int64{3, 1}, counts(), "after the end, of an archived message")
		n, err = f.StoreArrivals(t.Context(), []dlq.Arrival{late})
		require.NoError(t, err)
		require.Zero(t, n)
		require.Equal(t, []int64{3, 1}, counts())
		require.EqualValues(t, 3, f.end(jobs[0].ID, dlq.JobFailed).CameBack)
	},

	"messages of one job that come back together are all counted": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(3)...)
		b := f.startBulk(dlqtest.Bulk("orders", 1))
		lane := dlqtest.Lane(b, 0)
		f.finalizePage(lane, dlqtest.Outcomes(f.claimPage(lane), dlq.ResultDelivered))
		f.store(cameBackFrom(stored[0].ID), cameBackFrom(stored[1].ID), cameBackFrom(stored[2].ID))
		require.EqualValues(t, 3, f.job(b.ID).CameBack)
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
		require.EqualValues(t, messages, f.job(b.ID).CameBack)
	},
}
