package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

var steering = map[string]func(*testing.T, fixture){
	"returned messages are claimed again, in order, once": func(t *testing.T, f fixture) {
		stored := f.store(append([]dlq.Arrival{dlqtest.Arrival(dlqtest.Retries(1, 3))}, dlqtest.Arrivals(2*dlq.PageSize)...)...)
		f.retry(stored[2].ID, dlq.ResultFailed) // has a past of its own
		before := f.message(stored[2].ID)
		lane := dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0)
		first := f.claimPage(lane)
		require.Equal(t, ids(stored[:dlq.PageSize]), envelopeIDs(first))
		outcomes := dlqtest.Outcomes(first, dlq.ResultReturned)
		outcomes[0], outcomes[1], outcomes[5] = dlqtest.Sent(first[0].ID), dlqtest.Failed(first[1].ID), dlqtest.Sent(first[5].ID)
		outcomes[7].Result = dlq.ResultSkipped
		counts := dlq.BulkCounts{Retried: 2, Failed: 1, Skipped: 1}
		require.Equal(t, counts, f.finalizePage(lane, outcomes))

		m := f.message(stored[3].ID)
		require.Equal(t, dlq.StatusPending, m.Status)
		require.Zero(t, m.RetryCount)
		require.Zero(t, m.Owner)
		require.Nil(t, m.LastRetryAt, "it was never retried")
		m = f.message(stored[2].ID)
		require.Equal(t, 1, m.RetryCount)
		require.Zero(t, m.Owner)
		require.Equal(t, before.LastRetryAt, m.LastRetryAt, "its retry before is its last one")
		require.Len(t, f.detail(stored[2].ID).Attempts, 1)

		want := append(ids(stored[2:5]), stored[6].ID)
		want = append(want, ids(stored[8:dlq.PageSize+4])...)
		second := f.claimPage(lane)
		require.Equal(t, want, envelopeIDs(second), "what came back first, and not what was sent, failed or skipped")
		f.finalizePage(lane, dlqtest.Outcomes(second, dlq.ResultDelivered))
		third := f.claimPage(lane)
		require.Equal(t, ids(stored[dlq.PageSize+4:]), envelopeIDs(third))
		f.finalizePage(lane, dlqtest.Outcomes(third, dlq.ResultDelivered))
		require.Empty(t, f.claimPage(lane))
		ended := f.end(lane.Bulk, dlq.BulkCompleted)
		require.EqualValues(t, len(stored), ended.Matched)
		require.Equal(t, dlq.BulkCounts{Retried: ended.Matched - 2, Failed: 1, Skipped: 1}, ended.Counts)
	},

	"a skipped message keeps its owner and is not an attempt": func(t *testing.T, f fixture) {
		m := f.store(dlqtest.Arrival(dlqtest.Retries(2, 3)))[0]
		lane := dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0)
		page := f.claimPage(lane)
		require.Equal(t, dlq.BulkCounts{Skipped: 1}, f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultSkipped)))
		d := f.detail(m.ID)
		require.Equal(t, dlq.StatusPending, d.Status)
		require.Equal(t, 2, d.RetryCount)
		require.Equal(t, lane.Owner, d.Owner)
		require.Nil(t, d.LastRetryAt)
		require.Empty(t, d.Attempts)
		f.end(lane.Bulk, dlq.BulkCompleted)
		other := dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0)
		require.Len(t, f.claimPage(other), 1, "another job takes it")
	},

	"what failed is not taken again, whoever had it meanwhile": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(3)...)
		lane := dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0)
		page := f.claimPage(lane)
		f.finalizePage(lane, []dlq.Outcome{dlqtest.Failed(page[1].ID)})
		f.retry(stored[1].ID, dlq.ResultFailed)
		f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultReturned))
		require.Equal(t, []dlq.ID{stored[0].ID, stored[2].ID}, envelopeIDs(f.claimPage(lane)))
	},

	"a paused bulk retry owns nothing and goes on where it was": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(250)...)
		single := f.claim(stored[249].ID)
		b := f.startBulk(dlqtest.Bulk("orders", 2))
		lanes := []dlq.Lane{dlqtest.Lane(b, 0), dlqtest.Lane(b, 1)}
		sent := f.claimPage(lanes[0])
		f.finalizePage(lanes[0], dlqtest.Outcomes(sent[:40], dlq.ResultDelivered))
		unsent := append(f.claimPage(lanes[1]), sent[40:]...)

		paused := f.pause(b.ID, "lunch")
		require.Equal(t, dlq.BulkPaused, paused.State)
		require.Equal(t, "lunch", paused.Reason)
		require.Nil(t, paused.EndedAt)
		require.Equal(t, dlq.BulkCounts{Retried: 40}, paused.Counts)
		require.EqualValues(t, 1, f.retrying())
		require.Equal(t, single, f.message(stored[249].ID).Owner)
		for _, e := range unsent {
			m := f.message(e.ID)
			require.Zero(t, m.RetryCount)
			require.Zero(t, m.Owner)
		}
		require.Equal(t, "dinner", f.pause(b.ID, "dinner").Reason)
		require.Equal(t, dlq.BulkCounts{Retried: 40}, f.finalizePage(lanes[0], dlqtest.Outcomes(sent, dlq.ResultDelivered)), "too late")
		for _, lane := range lanes {
			require.Equal(t, dlq.LaneClaim{Closed: true}, f.ask(lane))
		}

		resumed := f.resume(b.ID)
		require.Equal(t, dlq.BulkRunning, resumed.State)
		require.Empty(t, resumed.Reason)
		again := f.resume(b.ID)
		again.RecentPerSecond = resumed.RecentPerSecond // which sinks as time passes
		require.Equal(t, resumed, again, "again changes nothing")
		next := f.claimPage(lanes[0])
		require.Equal(t, envelopeIDs(sent[40:]), envelopeIDs(next[:len(sent)-40]))
		for len(next) > 0 {
			f.finalizePage(lanes[0], dlqtest.Outcomes(next, dlq.ResultDelivered))
			next = f.claimPage(lanes[0])
		}
		for next = f.claimPage(lanes[1]); len(next) > 0; next = f.claimPage(lanes[1]) {
			f.finalizePage(lanes[1], dlqtest.Outcomes(next, dlq.ResultDelivered))
		}
		ended := f.end(b.ID, dlq.BulkCompleted)
		require.Equal(t, dlq.BulkCounts{Retried: 249}, ended.Counts)
		for _, after := range []dlq.BulkRetry{f.pause(b.ID, "late"), f.resume(b.ID)} {
			require.Equal(t, dlq.BulkCompleted, after.State)
			require.Empty(t, after.Reason)
			require.Equal(t, ended.EndedAt, after.EndedAt)
		}
	},

	"what an attempt had in hand at a pause is no longer its own": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(dlq.PageSize + 50)...)
		lane := dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0)
		older := f.openLane(lane)
		hanging := f.claimPage(older)
		finalizeLate := func(want dlq.BulkCounts) {
			t.Helper()
			before := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: len(stored)})
			for _, result := range []dlq.Result{dlq.ResultDelivered, dlq.ResultFailed, dlq.ResultRejected, dlq.ResultSkipped, dlq.ResultReturned} {
				late, err := f.FinalizePage(t.Context(), older, dlqtest.Outcomes(hanging, result))
				require.NoError(t, err)
				require.Equal(t, dlq.PageResult{Counts: want}, late, result)
			}
			require.Equal(t, before, f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: len(stored)}))
		}
		f.pause(lane.Bulk, "the broker hangs")
		require.Zero(t, f.retrying())
		finalizeLate(dlq.BulkCounts{})
		f.resume(lane.Bulk) // which opens the lane before a newer attempt has it
		finalizeLate(dlq.BulkCounts{})
		newer := f.openLane(lane)
		page := f.claimPage(newer)
		require.Equal(t, envelopeIDs(hanging), envelopeIDs(page))
		finalizeLate(dlq.BulkCounts{})
		require.Equal(t, dlq.BulkCounts{Retried: dlq.PageSize}, f.finalizePage(newer, dlqtest.Outcomes(page, dlq.ResultDelivered)))
		finalizeLate(dlq.BulkCounts{Retried: dlq.PageSize})
		page = f.claimPage(newer)
		require.Equal(t, ids(stored[dlq.PageSize:]), envelopeIDs(page))
		ended := f.end(lane.Bulk, dlq.BulkCancelled)
		require.Equal(t, dlq.BulkCounts{Retried: dlq.PageSize, Skipped: 50}, ended.Counts)
		finalizeLate(dlq.BulkCounts{Retried: dlq.PageSize})
		f.finalizePage(newer, dlqtest.Outcomes(page, dlq.ResultDelivered))
		require.Equal(t, ended.Counts, f.bulk(lane.Bulk).Counts)
	},

	"what an attempt of before a pause claims after it is the next one's to send": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(dlq.PageSize)...)
		lane := dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0)
		older := f.openLane(lane)
		f.claimPage(older)
		f.pause(lane.Bulk, "it knows nothing of this")
		f.resume(lane.Bulk)
		page := f.claimPage(older)
		require.Len(t, page, dlq.PageSize)
		newer := f.openLane(lane)
		left, err := f.ClaimedPage(t.Context(), newer)
		require.NoError(t, err)
		require.Equal(t, envelopeIDs(page), envelopeIDs(left))
		require.Zero(t, f.finalizePage(older, dlqtest.Outcomes(page, dlq.ResultDelivered)))
		require.Equal(t, dlq.LaneClaim{Closed: true}, f.ask(older))
		require.Equal(t, dlq.BulkCounts{Retried: dlq.PageSize}, f.finalizePage(newer, dlqtest.Outcomes(left, dlq.ResultDelivered)))
		require.Empty(t, f.claimPage(newer))
	},

	"a paused bulk retry can be cancelled": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(5)...)
		b := f.startBulk(dlqtest.Bulk("orders", 1))
		lane := dlqtest.Lane(b, 0)
		page := f.claimPage(lane)
		f.finalizePage(lane, []dlq.Outcome{dlqtest.Sent(page[0].ID), {ID: page[1].ID, Result: dlq.ResultSkipped}})
		f.pause(b.ID, "")
		ended := f.end(b.ID, dlq.BulkCancelled)
		require.Equal(t, dlq.BulkCancelled, ended.State)
		require.Equal(t, dlq.BulkCounts{Retried: 1, Skipped: 4}, ended.Counts)
		require.Equal(t, ended.Matched, ended.Counts.Done())
	},

	"a bulk retry that does not exist cannot be steered": func(t *testing.T, f fixture) {
		id := dlq.NewID()
		_, err := f.PauseBulk(t.Context(), id, "")
		require.ErrorIs(t, err, dlq.ErrNotFound)
		_, err = f.ResumeBulk(t.Context(), id)
		require.ErrorIs(t, err, dlq.ErrNotFound)
		require.ErrorIs(t, f.SetBulkRate(t.Context(), id, 1), dlq.ErrNotFound)
		require.ErrorIs(t, f.SetBulkAllowance(t.Context(), id, nil), dlq.ErrNotFound)
		_, err = f.EndBulk(t.Context(), f.startBulk(dlqtest.Bulk("orders", 1)).ID, dlq.BulkPaused, "")
		require.Error(t, err, "a pause is not an end")
	},

	"a note says why a running bulk retry waits": func(t *testing.T, f fixture) {
		b := f.startBulk(dlqtest.Bulk("orders", 1))
		note := func(reason string) string {
			require.NoError(t, f.NoteBulk(t.Context(), b.ID, reason))
			return f.bulk(b.ID).Reason
		}
		require.Equal(t, "broker away", note("broker away"))
		require.Empty(t, note(""))
		f.pause(b.ID, "operator")
		require.Equal(t, "operator", note("broker away"), "a pause has its own reason")
		_, err := f.EndBulk(t.Context(), b.ID, dlq.BulkFailed, "gave up")
		require.NoError(t, err)
		require.Equal(t, "gave up", note("broker away"))
		require.NoError(t, f.NoteBulk(t.Context(), dlq.NewID(), "nobody"))
	},

	"bulk retries run until they end": func(t *testing.T, f fixture) {
		started := make([]dlq.ID, 5)
		for i := range started {
			started[i] = f.startBulk(dlqtest.Bulk(fmt.Sprint("topic-", i), 2)).ID
		}
		f.pause(started[1], "")
		for i, state := range []dlq.BulkState{dlq.BulkCompleted, dlq.BulkFailed} {
			f.end(started[2+i], state)
		}
		running, err := f.RunningBulks(t.Context())
		require.NoError(t, err)
		var found []dlq.ID
		for _, b := range running {
			found = append(found, b.ID)
		}
		require.Equal(t, []dlq.ID{started[4], started[1], started[0]}, found, "the newest first")
		require.Equal(t, dlq.BulkPaused, running[1].State)
	},

	"blocked keys are those that were attempted and not delivered, or skipped": func(t *testing.T, f fixture) {
		var arrivals []dlq.Arrival
		for i := range 12 {
			arrivals = append(arrivals, dlqtest.Arrival(dlqtest.Key(fmt.Sprint("key-", i))))
		}
		arrivals = append(arrivals, dlqtest.Arrival(dlqtest.NoKey), dlqtest.Arrival(dlqtest.Key("key-0")), dlqtest.Arrival(dlqtest.Key("")))
		stored := f.store(arrivals...)
		f.retry(stored[11].ID, dlq.ResultFailed) // not of the job
		b := f.startBulk(dlqtest.Bulk("orders", 2))
		results := []dlq.Result{dlq.ResultFailed, dlq.ResultRejected, dlq.ResultDelivered, dlq.ResultSkipped, dlq.ResultReturned}
		resultOf := func(i int) dlq.Result {
			switch i {
			case 11:
				return dlq.ResultDelivered
			case 12, 13, 14:
				return dlq.ResultFailed
			default:
				return results[i%len(results)]
			}
		}
		var held []string
		for number := range 2 {
			lane := dlqtest.Lane(b, number)
			var want []string
			for _, e := range f.claimPage(lane) {
				for i := range stored {
					if stored[i].ID != e.ID {
						continue
					}
					result := resultOf(i)
					f.finalizePage(lane, dlqtest.Outcomes([]dlq.Envelope{e}, result))
					if result != dlq.ResultDelivered && result != dlq.ResultReturned && e.Record.Key != nil && i != 13 {
						want = append(want, string(e.Record.Key))
					}
				}
			}
			for range 2 { // also when the message has been archived
				keys, err := f.BlockedKeys(t.Context(), lane)
				require.NoError(t, err)
				found := make([]string, len(keys))
				for i, key := range keys {
					found[i] = string(key)
				}
				require.ElementsMatch(t, want, found)
				_, err = f.ArchiveBatch(t.Context(), 0, 100)
				require.NoError(t, err)
			}
			held = append(held, want...)
		}
		require.ElementsMatch(t, []string{"key-0", "key-1", "key-3", "key-5", "key-6", "key-8", "key-10", ""}, held)
	},

	"the recent rate counts what was processed": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(60)...)
		b := f.startBulk(dlqtest.Bulk("orders", 2))
		require.Zero(t, b.RecentPerSecond)
		processed := 0
		for number := range 2 {
			lane := dlqtest.Lane(b, number)
			page := f.claimPage(lane)
			outcomes := dlqtest.Outcomes(page, dlq.ResultDelivered)
			outcomes[0].Result, outcomes[1].Result = dlq.ResultSkipped, dlq.ResultReturned
			outcomes[2] = dlqtest.Failed(page[2].ID)
			f.finalizePage(lane, outcomes)
			processed += len(page) - 2
		}
		found := f.bulk(b.ID)
		require.LessOrEqual(t, found.RecentPerSecond, float64(processed))
		elapsed := max(1, time.Since(b.StartedAt).Seconds()+1) // clocks of two programs
		require.Greater(t, found.RecentPerSecond, float64(processed)/min(10, elapsed)*0.5)
	},

	"pausing and ending race with the lanes and lose nothing": func(t *testing.T, f fixture) {
		const lanes, messages = 4, 1500
		arrivals := dlqtest.Arrivals(messages)
		for i := range arrivals {
			arrivals[i].Record.Key = fmt.Appendf(nil, "key-%d", i%97)
		}
		f.store(arrivals...)
		b := f.startBulk(dlqtest.Bulk("orders", lanes))
		delivered, failures := make([][]int64, lanes), make([]error, lanes)
		stop := make(chan struct{})
		var group sync.WaitGroup
		for number := range lanes {
			group.Go(func() {
				lane := dlqtest.Lane(b, number)
				for {
					select {
					case <-stop:
						return
					default:
					}
					claim, err := f.ClaimPage(t.Context(), lane)
					if err == nil && len(claim.Envelopes) > 0 {
						outcomes := dlqtest.Outcomes(claim.Envelopes, dlq.ResultDelivered)
						from := rand.IntN(len(outcomes) + 1) //nolint:gosec // any mixture will do; the rest is for another time
						for i := from; i < len(outcomes); i++ {
							outcomes[i].Result = dlq.ResultReturned
						}
						_, err = f.FinalizePage(t.Context(), lane, outcomes)
						for _, e := range claim.Envelopes[:from] {
							delivered[number] = append(delivered[number], e.Seq)
						}
					}
					if failures[number] = err; err != nil {
						return
					}
				}
			})
		}
		for range 15 {
			f.pause(b.ID, "race")
			require.Zero(t, f.retrying())
			before := f.bulk(b.ID).Counts.Retried
			f.resume(b.ID)
			require.Eventually(t, func() bool {
				now := f.bulk(b.ID).Counts.Retried
				return now > before || now == messages
			}, 20*time.Second, time.Millisecond)
		}
		ended := f.end(b.ID, dlq.BulkCancelled)
		require.Zero(t, f.retrying())
		close(stop)
		group.Wait()
		require.NoError(t, errors.Join(failures...))
		require.Equal(t, ended.Counts, f.bulk(b.ID).Counts)
		require.Equal(t, ended.Matched, ended.Counts.Done())
		resolved := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders", Statuses: []dlq.Status{dlq.StatusResolved}}, PageSize: 1})
		require.Equal(t, ended.Counts.Retried, resolved.Total)
		pending := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders", Statuses: []dlq.Status{dlq.StatusPending}}, PageSize: messages})
		require.EqualValues(t, messages, resolved.Total+pending.Total)
		for _, m := range pending.Messages {
			require.Zero(t, m.RetryCount)
			require.Zero(t, m.Owner)
		}
	},

	"two workers on one lane give back and lose nothing": func(t *testing.T, f fixture) {
		const messages = 600
		f.store(dlqtest.Arrivals(messages)...)
		lane := dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0)
		failures := make([]error, 2)
		var group sync.WaitGroup
		for w := range failures {
			group.Go(func() {
				for {
					claim, err := f.ClaimPage(t.Context(), lane)
					if failures[w] = err; err != nil || len(claim.Envelopes) == 0 {
						return
					}
					outcomes := dlqtest.Outcomes(claim.Envelopes, dlq.ResultDelivered)
					for i := range outcomes {
						if rand.IntN(2) == 0 { //nolint:gosec // any mixture will do
							outcomes[i].Result = dlq.ResultReturned
						}
					}
					if _, err := f.FinalizePage(t.Context(), lane, outcomes); err != nil {
						failures[w] = err
						return
					}
				}
			})
		}
		group.Wait()
		require.NoError(t, errors.Join(failures...))
		require.EqualValues(t, messages, f.bulk(lane.Bulk).Counts.Retried, "the end was the end")
	},
}
