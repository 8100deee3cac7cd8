package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

var bulks = map[string]func(*testing.T, fixture){
	"a bulk retry fixes its scope at the start": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(5)...)
		f.store(dlqtest.Arrival(dlqtest.Topic("elsewhere")), dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", "orders.dlq")))
		f.retry(stored[0].ID, dlq.ResultDelivered)
		f.claim(stored[1].ID)
		newest := f.store(dlqtest.Arrival())[0]
		_, err := f.MarkDead(t.Context(), nil, newest.ID)
		require.NoError(t, err)

		b := f.startBulk(dlqtest.Bulk("orders.dlq", 2))
		require.Equal(t, dlq.JobRunning, b.State)
		require.EqualValues(t, 3, b.Matched)
		require.Equal(t, newest.Seq, b.UpperBound)
		require.Equal(t, 2, b.Lanes)
		require.Zero(t, b.Counts)
		require.Nil(t, b.EndedAt)

		f.store(dlqtest.Arrivals(3)...)
		found, err := f.Job(t.Context(), b.ID)
		require.NoError(t, err)
		require.Equal(t, b, found)

		var claimed []dlq.ID
		for number := range 2 {
			claimed = append(claimed, envelopeIDs(f.claimPage(dlqtest.Lane(b, number)))...)
		}
		require.ElementsMatch(t, ids(stored[2:]), claimed)
	},

	"a bulk retry exists before it is counted": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(4)...)
		owner := f.claim(stored[3].ID)
		b, err := f.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 2))
		require.NoError(t, err)
		require.True(t, b.Counting)
		require.Equal(t, dlq.JobRunning, b.State)
		require.Zero(t, b.Matched)
		require.Equal(t, b, f.job(b.ID))
		listed := f.jobs(dlq.JobQuery{PageSize: 1})
		require.Equal(t, []dlq.Job{b}, listed)
		f.requireRefused(dlqtest.Bulk("orders.dlq", 1), b)

		f.store(dlqtest.Arrivals(3)...)
		_, _, err = f.Finalize(t.Context(), owner, dlqtest.Failed(stored[3].ID))
		require.NoError(t, err)
		f.pause(b.ID, "operator")
		counted := f.countBulk(b.ID)
		require.False(t, counted.Counting)
		require.EqualValues(t, 3, counted.Matched, "the messages at the start that are unchanged since")
		require.Equal(t, dlq.JobPaused, counted.State)
		require.Equal(t, "operator", counted.Reason)
		require.Equal(t, counted, f.job(b.ID))

		f.resume(b.ID)
		f.retry(stored[0].ID, dlq.ResultDelivered)
		require.EqualValues(t, 3, f.countBulk(b.ID).Matched, "counted once")
		_, err = f.CountJob(t.Context(), dlq.NewID())
		require.ErrorIs(t, err, dlq.ErrNotFound)
	},

	"a bulk retry that ends before it is counted has matched the messages that it finished": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(3)...)
		for _, done := range []int64{0, 1} {
			b, err := f.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
			require.NoError(t, err)
			lane := dlqtest.Lane(b, 0)
			page := f.claimPage(lane)
			f.finalizePage(lane, dlqtest.Outcomes(page[:done], dlq.ResultDelivered))
			ended := f.end(b.ID, dlq.JobFailed)
			require.False(t, ended.Counting)
			require.Equal(t, done, ended.Matched)
			require.Equal(t, dlq.JobCounts{Retried: done}, ended.Counts)
			require.Equal(t, ended, f.countBulk(b.ID), "too late")
		}
	},

	"a bulk retry of a topic claims the messages under both names of the topic": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrival(dlqtest.FromTopic("a.dlq", "orders")), dlqtest.Arrival(dlqtest.FromTopic("orders", "b")),
			dlqtest.Arrival(dlqtest.FromTopic("c.dlq", "c")), dlqtest.Arrival(dlqtest.FromTopic("d.dlq", "orders")))
		b := f.startBulk(dlqtest.Bulk("orders", 1))
		require.EqualValues(t, 3, b.Matched)
		require.Equal(t, []dlq.ID{stored[0].ID, stored[1].ID, stored[3].ID}, envelopeIDs(f.claimPage(dlqtest.Lane(b, 0))))
	},

	"a bulk retry without messages is done at once": func(t *testing.T, f fixture) {
		b := f.startBulk(dlqtest.Bulk("nothing", 0))
		require.Zero(t, b.Matched)
		require.Zero(t, b.UpperBound)
		require.Equal(t, 1, b.Lanes)
		require.Empty(t, f.claimPage(dlqtest.Lane(b, 0)))
		ended, err := f.EndJob(t.Context(), nil, b.ID, dlq.JobCompleted, "")
		require.NoError(t, err)
		require.Zero(t, ended.Counts)
	},

	"a cancelled bulk retry leaves nothing RETRYING": func(t *testing.T, f fixture) {
		arrivals := dlqtest.Arrivals(3 * dlq.PageSize)
		f.store(arrivals...)
		single := f.claim(arrivals[len(arrivals)-1].ID) // a single retry, not a message of this bulk retry
		b := f.startBulk(dlqtest.Bulk("orders", 1))
		lane := dlqtest.Lane(b, 0)
		sent := f.claimPage(lane)
		f.finalizePage(lane, dlqtest.Outcomes(sent, dlq.ResultDelivered))
		unsent := f.claimPage(lane)

		ended, err := f.EndJob(t.Context(), nil, b.ID, dlq.JobCancelled, "operator cancelled it")
		require.NoError(t, err)
		require.Equal(t, dlq.JobCancelled, ended.State)
		require.Equal(t, "operator cancelled it", ended.Reason)
		require.NotNil(t, ended.EndedAt)
		require.Equal(t, dlq.JobCounts{Retried: dlq.PageSize, Skipped: 2*dlq.PageSize - 1}, ended.Counts)
		require.Equal(t, ended.Matched, ended.Counts.Done())
		for _, e := range unsent {
			m := f.message(e.ID)
			require.Equal(t, dlq.StatusPending, m.Status)
			require.Zero(t, m.RetryCount, "it was not sent, so it does not count")
		}
		require.Equal(t, single, f.message(arrivals[len(arrivals)-1].ID).Owner)
		retrying := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders", Statuses: []dlq.Status{dlq.StatusRetrying}}, PageSize: 10})
		require.EqualValues(t, 1, retrying.Total)

		require.Empty(t, f.claimPage(lane), "an older attempt claims nothing any more")
		f.requireFenced(lane, dlqtest.Outcomes(unsent, dlq.ResultDelivered))
		again, err := f.EndJob(t.Context(), nil, b.ID, dlq.JobFailed, "too late")
		require.NoError(t, err)
		require.Equal(t, ended.State, again.State)
		require.Equal(t, ended.Reason, again.Reason)
		require.Equal(t, ended.Counts, again.Counts)
		require.Equal(t, ended.EndedAt, again.EndedAt)
	},

	"messages that other clients changed meanwhile are skipped": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(5)...)
		b := f.startBulk(dlqtest.Bulk("orders", 1))
		lane := dlqtest.Lane(b, 0)
		f.claim(stored[0].ID)
		f.retry(stored[1].ID, dlq.ResultDelivered)
		require.NoError(t, f.Delete(t.Context(), nil, stored[2].ID))
		page := f.claimPage(lane)
		require.Equal(t, ids(stored[3:]), envelopeIDs(page))
		f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
		require.Empty(t, f.claimPage(lane))
		ended, err := f.EndJob(t.Context(), nil, b.ID, dlq.JobCompleted, "")
		require.NoError(t, err)
		require.Equal(t, dlq.JobCounts{Retried: 2, Skipped: 3}, ended.Counts)
	},

	"messages that become PENDING while a bulk retry runs are not claimed": func(t *testing.T, f fixture) {
		for _, filter := range []dlq.Filter{{}, {ErrorContains: "boom"}, {Key: []byte("k")}, {IDs: []dlq.ID{}}} {
			stored := f.store(dlqtest.Arrivals(5, dlqtest.Key("k"))...)
			if filter.IDs != nil {
				filter.IDs = ids(stored)
			}
			single, abandoned := f.claim(stored[0].ID), f.claim(stored[1].ID)
			b := f.startBulk(dlqtest.Bulk("orders", 1, dlqtest.Filter(filter)))
			require.EqualValues(t, 3, b.Matched)
			_, _, err := f.Finalize(t.Context(), single, dlqtest.Failed(stored[0].ID))
			require.NoError(t, err)
			_, err = f.Release(t.Context(), abandoned, "gone")
			require.NoError(t, err)
			f.retry(stored[2].ID, dlq.ResultFailed) // it is matched, but another client retries it meanwhile
			f.retry(stored[3].ID, dlq.ResultReleased)

			lane := dlqtest.Lane(b, 0)
			page := f.claimPage(lane)
			require.Equal(t, ids(stored[4:]), envelopeIDs(page))
			f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
			f.pause(b.ID, "")
			f.resume(b.ID)
			require.Empty(t, f.claimPage(lane))
			ended := f.end(b.ID, dlq.JobCompleted)
			require.EqualValues(t, 3, ended.Matched)
			require.Equal(t, dlq.JobCounts{Retried: 1, Skipped: 2}, ended.Counts)
			for _, m := range stored[:4] {
				_, err := f.MarkDead(t.Context(), nil, m.ID)
				require.NoError(t, err)
			}
		}
	},

	"a requeued message stays in its job until another client retries it": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(4)...)
		b := f.startBulk(dlqtest.Bulk("orders", 1))
		lane := dlqtest.Lane(b, 0)
		page := f.claimPage(lane)
		f.finalizePage(lane, dlqtest.Outcomes(page[:2], dlq.ResultWaiting))
		f.pause(b.ID, "")
		f.resume(b.ID)
		f.retry(stored[1].ID, dlq.ResultFailed)
		f.retry(stored[3].ID, dlq.ResultReleased)
		require.ElementsMatch(t, []dlq.ID{stored[0].ID, stored[2].ID}, f.drain(f.openLane(lane)))
		f.end(b.ID, dlq.JobCancelled)
		require.EqualValues(t, 2, f.startBulk(dlqtest.Bulk("orders", 1)).Matched, "the next job claims the rest")
	},

	"messages stored while a bulk retry starts are counted or not claimed": func(t *testing.T, f fixture) {
		const batches = 30
		failures := make([]error, 4)
		stored := make(chan struct{})
		var group sync.WaitGroup
		for i := range failures {
			group.Go(func() {
				for range batches {
					if _, failures[i] = f.StoreArrivals(t.Context(), dlqtest.Arrivals(1+i)); failures[i] != nil {
						return
					}
				}
			})
		}
		go func() {
			group.Wait()
			close(stored)
		}()
		var sent int64
		for last := false; !last; {
			select {
			case <-stored:
				last = true
			default:
			}
			b := f.startBulk(dlqtest.Bulk("orders", 1))
			lane := dlqtest.Lane(b, 0)
			for page := f.claimPage(lane); len(page) > 0; page = f.claimPage(lane) {
				f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
			}
			ended := f.end(b.ID, dlq.JobCompleted)
			require.Equal(t, b.Matched, ended.Matched)
			require.Equal(t, dlq.JobCounts{Retried: b.Matched}, ended.Counts)
			sent += b.Matched
		}
		require.NoError(t, errors.Join(failures...))
		require.EqualValues(t, batches*(1+2+3+4), sent)
	},

	"a bulk retry ends only in a final state": func(t *testing.T, f fixture) {
		b := f.startBulk(dlqtest.Bulk("orders", 1))
		_, err := f.EndJob(t.Context(), nil, b.ID, dlq.JobRunning, "")
		require.Error(t, err)
	},

	"bulk retries are listed newest first": func(t *testing.T, f fixture) {
		var want []dlq.ID
		for i := range 4 {
			want = append([]dlq.ID{f.startBulk(dlqtest.Bulk(fmt.Sprint("topic-", i), 2)).ID}, want...)
		}
		list := f.jobs(dlq.JobQuery{PageSize: 3})
		require.Len(t, list, 3)
		for i, b := range list {
			require.Equal(t, want[i], b.ID)
		}
		list = f.jobs(dlq.JobQuery{PageSize: 0})
		require.Empty(t, list)
	},
}
