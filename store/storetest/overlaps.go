package storetest

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// refuses expects that the bulk retry cannot start because of another.
func (f fixture) refuses(b, running dlq.BulkRetry) {
	f.t.Helper()
	_, err := f.StartBulk(f.t.Context(), b)
	f.isBusy(err, b, running)
	_, err = f.Bulk(f.t.Context(), b.ID)
	require.ErrorIs(f.t, err, dlq.ErrNotFound, "nothing is left of it")
}

func (f fixture) isBusy(err error, b, running dlq.BulkRetry) {
	f.t.Helper()
	var busy *dlq.BulkBusyError
	require.ErrorAs(f.t, err, &busy)
	require.Equal(f.t, dlq.BulkBusyError{Topic: b.Spec.Topic, Running: running.ID}, *busy)
}

var overlaps = map[string]func(*testing.T, fixture){
	"a bulk retry waits for another of its topic to end": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(3)...)
		for _, topic := range []string{"orders", "orders.dlq", "nothing", ""} {
			for _, end := range []dlq.BulkState{dlq.BulkCompleted, dlq.BulkCancelled, dlq.BulkFailed} {
				first, second := f.startBulk(dlqtest.Bulk(topic, 1)), dlqtest.Bulk(topic, 1)
				f.refuses(second, first)
				f.pause(first.ID, "")
				f.refuses(second, first)
				f.end(first.ID, end)
				require.Equal(t, second.ID, f.startBulk(second).ID)
				f.end(second.ID, dlq.BulkCompleted)
			}
		}
	},

	"a bulk retry waits for another under the topic's other name": func(_ *testing.T, f fixture) {
		f.store(dlqtest.Arrival(dlqtest.Topic("users")), dlqtest.Arrival(dlqtest.FromTopic("shared.dlq", "orders")),
			dlqtest.Arrival(dlqtest.FromTopic("shared.dlq", "stock")), dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", "orders")))
		for _, names := range [][2]string{{"orders", "orders.dlq"}, {"orders", "shared.dlq"}, {"stock", "shared.dlq"}, {"users", "users.dlq"}} {
			for _, order := range [][2]string{names, {names[1], names[0]}} {
				first, second := f.startBulk(dlqtest.Bulk(order[0], 1)), dlqtest.Bulk(order[1], 1)
				f.refuses(second, first)
				f.end(first.ID, dlq.BulkCompleted)
				f.end(f.startBulk(second).ID, dlq.BulkCompleted)
			}
		}
	},

	"bulk retries without messages in common run at once": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrival(dlqtest.Topic("users")), dlqtest.Arrival(dlqtest.FromTopic("shared.dlq", "orders")),
			dlqtest.Arrival(dlqtest.FromTopic("shared.dlq", "stock")), dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", "orders")))
		for _, topic := range []string{"orders", "stock", "users", "shared", "nothing", ""} {
			f.startBulk(dlqtest.Bulk(topic, 1))
		}
		// shared.dlq has messages in common with two of them; either may be named.
		_, err := f.StartBulk(t.Context(), dlqtest.Bulk("shared.dlq", 1))
		var busy *dlq.BulkBusyError
		require.ErrorAs(t, err, &busy)
		require.Contains(t, []string{"orders", "stock"}, f.bulk(busy.Running).Spec.Topic)
	},

	"messages in common are so in any status": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrival())
		first, second := f.startBulk(dlqtest.Bulk("orders", 1)), dlqtest.Bulk("orders.dlq", 1)
		lane := dlqtest.Lane(first, 0)
		page := f.claimPage(lane)
		require.Equal(t, ids(stored), envelopeIDs(page))
		f.refuses(second, first)
		f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
		f.refuses(second, first)

		dead := f.store(dlqtest.Arrival(dlqtest.Topic("users")))[0]
		_, err := f.MarkDead(t.Context(), dead.ID)
		require.NoError(t, err)
		f.refuses(dlqtest.Bulk("users.dlq", 1), f.startBulk(dlqtest.Bulk("users", 1)))
	},

	"a bulk retry that was started has nobody in its way": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(3)...)
		first := f.startBulk(dlqtest.Bulk("orders", 1))
		require.Equal(t, first, f.startBulk(first))
		paused := f.pause(first.ID, "operator")
		require.Equal(t, paused, f.startBulk(first))
		ended := f.end(first.ID, dlq.BulkCancelled)
		f.startBulk(dlqtest.Bulk("orders.dlq", 1))
		require.Equal(t, ended, f.startBulk(first))
	},

	"of bulk retries that start at once under both names one wins": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(50)...)
		for range 10 {
			jobs := []dlq.BulkRetry{dlqtest.Bulk("orders", 2), dlqtest.Bulk("orders.dlq", 2), dlqtest.Bulk("orders", 2), dlqtest.Bulk("orders.dlq", 2)}
			failures := make([]error, len(jobs))
			begin := make(chan struct{})
			var group sync.WaitGroup
			for i, b := range jobs {
				group.Go(func() {
					<-begin
					_, failures[i] = f.StartBulk(t.Context(), b)
				})
			}
			close(begin)
			group.Wait()
			running, err := f.RunningBulks(t.Context())
			require.NoError(t, err)
			require.Len(t, running, 1)
			for i, b := range jobs {
				if b.ID == running[0].ID {
					require.NoError(t, failures[i])
					continue
				}
				f.isBusy(failures[i], b, running[0])
			}
			f.end(running[0].ID, dlq.BulkCompleted)
			for i, b := range jobs {
				if failures[i] != nil {
					f.end(f.startBulk(b).ID, dlq.BulkCompleted)
				}
			}
		}
	},

	"a bulk retry knows whether it has more than one target": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrival(dlqtest.FromTopic("a.dlq", "orders")), dlqtest.Arrival(dlqtest.FromTopic("b.dlq", "orders")),
			dlqtest.Arrival(dlqtest.FromTopic("shared.dlq", "orders")), dlqtest.Arrival(dlqtest.FromTopic("shared.dlq", "Orders"), dlqtest.Key("k")),
			dlqtest.Arrival(dlqtest.FromTopic("spent.dlq", "orders")), dlqtest.Arrival(dlqtest.FromTopic("spent.dlq", "stock"), dlqtest.Retries(3, 3)),
			dlqtest.Arrival(dlqtest.FromTopic("spent.dlq", "spent.dlq")))
		for _, test := range []struct {
			topic  string
			filter dlq.BulkFilter
			want   bool
		}{
			{"orders", dlq.BulkFilter{}, false}, // from several topics, all to one
			{"nothing", dlq.BulkFilter{}, false},
			{"shared.dlq", dlq.BulkFilter{}, true},
			{"shared.dlq", dlq.BulkFilter{Key: []byte("k")}, false},
			{"shared.dlq", dlq.BulkFilter{IDs: ids(stored)}, true},
			{"shared.dlq", dlq.BulkFilter{IDs: ids(stored[:3])}, false},
			{"spent.dlq", dlq.BulkFilter{}, false}, // only what is retryable counts
		} {
			b := f.startBulk(dlqtest.Bulk(test.topic, 1, dlqtest.Filter(test.filter)))
			require.Equal(t, test.want, b.Mixed, test)
			require.Equal(t, test.want, f.bulk(b.ID).Mixed, test)
			running, err := f.RunningBulks(t.Context())
			require.NoError(t, err)
			require.Equal(t, test.want, running[0].Mixed, test)
			listed, err := f.Bulks(t.Context(), 1)
			require.NoError(t, err)
			require.Equal(t, test.want, listed[0].Mixed, test)
			require.Equal(t, test.want, f.end(b.ID, dlq.BulkCompleted).Mixed, test)
		}
	},
}
