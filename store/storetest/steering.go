package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

var steering = map[string]func(*testing.T, fixture){
	"waiting messages are claimed again, in order, once": func(t *testing.T, f fixture) {
		stored := f.store(append([]dlq.Arrival{dlqtest.Arrival(dlqtest.Retries(1, 3))}, dlqtest.Arrivals(2*dlq.PageSize)...)...)
		f.retry(stored[2].ID, dlq.ResultFailed) // the message has an earlier attempt
		before := f.message(stored[2].ID)
		lane := dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0)
		first := f.claimPage(lane)
		require.Equal(t, ids(stored[:dlq.PageSize]), envelopeIDs(first))
		outcomes := dlqtest.Outcomes(first, dlq.ResultWaiting)
		outcomes[0], outcomes[1] = outcome(first[0], dlq.ResultDelivered), outcome(first[1], dlq.ResultFailed)
		outcomes[5] = outcome(first[5], dlq.ResultDelivered)
		outcomes[7] = outcome(first[7], dlq.ResultSkipped)
		counts := dlq.JobCounts{Retried: 2, Failed: 1, Skipped: 1}
		require.Equal(t, counts, f.finalizePage(lane, outcomes))
		require.EqualValues(t, dlq.PageSize-4, f.job(lane.Job).Waiting)

		m := f.message(stored[3].ID)
		require.Equal(t, dlq.StatusPending, m.Status)
		require.Zero(t, m.RetryCount)
		require.Nil(t, m.LastRetryAt, "it was never retried")
		m = f.message(stored[2].ID)
		require.Equal(t, 1, m.RetryCount)
		require.Equal(t, before.LastRetryAt, m.LastRetryAt, "the time of its earlier retry")
		require.Len(t, f.detail(stored[2].ID).Attempts, 1)

		want := append(ids(stored[2:5]), stored[6].ID)
		want = append(want, ids(stored[8:dlq.PageSize])...)
		second := f.claimPage(lane)
		require.Equal(t, want, envelopeIDs(second), "waiting messages first, and none that was sent, failed or skipped")
		require.Zero(t, f.job(lane.Job).Waiting)
		f.finalizePage(lane, dlqtest.Outcomes(second, dlq.ResultDelivered))
		for _, want := range [][]dlq.Message{stored[dlq.PageSize : 2*dlq.PageSize], stored[2*dlq.PageSize:], nil} {
			page := f.claimPage(lane)
			require.Equal(t, ids(want), envelopeIDs(page))
			f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
		}
		ended := f.end(lane.Job, dlq.JobCompleted)
		require.EqualValues(t, len(stored), ended.Matched)
		require.Equal(t, dlq.JobCounts{Retried: ended.Matched - 2, Failed: 1, Skipped: 1}, ended.Counts)
	},

	"a skipped message keeps its owner and is not an attempt": func(t *testing.T, f fixture) {
		m := f.store(dlqtest.Arrival(dlqtest.Retries(2, 3)))[0]
		lane := dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0)
		page := f.claimPage(lane)
		require.Equal(t, dlq.JobCounts{Skipped: 1}, f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultSkipped)))
		d := f.detail(m.ID)
		require.Equal(t, dlq.StatusPending, d.Status)
		require.Equal(t, 2, d.RetryCount)
		require.Equal(t, lane.Owner, d.Owner)
		require.Nil(t, d.LastRetryAt)
		require.Empty(t, d.Attempts)
		f.end(lane.Job, dlq.JobCompleted)
		other := dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0)
		require.Len(t, f.claimPage(other), 1, "another job claims it")
	},

	"a failed message is not claimed again, even if another client retried it": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(3)...)
		lane := dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0)
		page := f.claimPage(lane)
		f.finalizePage(lane, []dlq.PageOutcome{outcome(page[1], dlq.ResultFailed)})
		f.retry(stored[1].ID, dlq.ResultFailed)
		f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultWaiting))
		require.Equal(t, []dlq.ID{stored[0].ID, stored[2].ID}, envelopeIDs(f.claimPage(lane)))
	},

	"a paused bulk retry owns nothing and continues where it stopped": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(250)...)
		single := f.claim(stored[249].ID)
		b := f.startBulk(dlqtest.Bulk("orders", 2))
		lanes := []dlq.Lane{dlqtest.Lane(b, 0), dlqtest.Lane(b, 1)}
		sent := f.claimPage(lanes[0])
		f.finalizePage(lanes[0], dlqtest.Outcomes(sent[:40], dlq.ResultDelivered))
		unsent := append(f.claimPage(lanes[1]), sent[40:]...)

		paused := f.pause(b.ID, "lunch")
		require.Equal(t, dlq.JobPaused, paused.State)
		require.Equal(t, "lunch", paused.Reason)
		require.Nil(t, paused.EndedAt)
		require.Equal(t, dlq.JobCounts{Retried: 40}, paused.Counts)
		require.EqualValues(t, 1, f.retrying())
		require.Equal(t, single, f.message(stored[249].ID).Owner)
		for _, e := range unsent {
			m := f.message(e.ID)
			require.Equal(t, dlq.StatusPending, m.Status)
			require.Zero(t, m.RetryCount)
		}
		require.EqualValues(t, len(unsent), paused.Waiting)
		require.Equal(t, "dinner", f.pause(b.ID, "dinner").Reason)
		f.requireFenced(lanes[0], dlqtest.Outcomes(sent[:40], dlq.ResultDelivered)) // a second time
		f.requireFenced(lanes[0], dlqtest.Outcomes(sent, dlq.ResultFailed))         // too late
		for i, lane := range lanes {
			require.Equal(t, dlq.LaneClaim{Stopped: true}, f.tryClaim(lane))
			lanes[i] = f.openLane(lane)
			require.Equal(t, dlq.JobPaused, lanes[i].State)
		}
		for _, lane := range lanes {
			require.Equal(t, dlq.LaneClaim{Stopped: true}, f.tryClaim(lane))
		}

		resumed := f.resume(b.ID)
		require.Equal(t, dlq.JobRunning, resumed.State)
		require.NotEqual(t, "dinner", resumed.Reason)
		again := f.resume(b.ID)
		again.RecentPerSecond = resumed.RecentPerSecond // the rate falls as time passes
		require.Equal(t, resumed, again, "again changes nothing")
		next := f.claimPage(lanes[0])
		require.Equal(t, envelopeIDs(sent[40:]), envelopeIDs(next))
		f.finalizePage(lanes[0], dlqtest.Outcomes(next, dlq.ResultDelivered))
		for _, lane := range lanes {
			f.drain(lane)
		}
		ended := f.end(b.ID, dlq.JobCompleted)
		require.Equal(t, dlq.JobCounts{Retried: 249}, ended.Counts)
		for _, after := range []dlq.Job{f.pause(b.ID, "late"), f.resume(b.ID)} {
			require.Equal(t, dlq.JobCompleted, after.State)
			require.Empty(t, after.Reason)
			require.Equal(t, ended.EndedAt, after.EndedAt)
		}
	},

	"an attempt loses its page at a pause": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(dlq.PageSize + 50)...)
		lane := dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0)
		older := f.openLane(lane)
		unfinished := f.claimPage(older)
		finalizeLate := func() {
			t.Helper()
			before := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: len(stored)})
			counts := f.job(lane.Job).Counts
			for _, result := range []dlq.Result{dlq.ResultFailed, dlq.ResultRejected, dlq.ResultSkipped, dlq.ResultWaiting} {
				f.requireFenced(older, dlqtest.Outcomes(unfinished, result))
			}
			require.Equal(t, before, f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: len(stored)}))
			require.Equal(t, counts, f.job(lane.Job).Counts)
		}
		f.pause(lane.Job, "the broker hangs")
		require.Zero(t, f.retrying())
		finalizeLate()
		f.resume(lane.Job)
		finalizeLate()
		require.Equal(t, dlq.LaneClaim{Stopped: true}, f.tryClaim(older))
		newer := f.openLane(lane)
		page := f.claimPage(newer)
		require.Equal(t, envelopeIDs(unfinished), envelopeIDs(page))
		finalizeLate()
		require.Equal(t, dlq.JobCounts{Retried: dlq.PageSize}, f.finalizePage(newer, dlqtest.Outcomes(page, dlq.ResultDelivered)))
		finalizeLate()
		page = f.claimPage(newer)
		require.Equal(t, ids(stored[dlq.PageSize:]), envelopeIDs(page))
		ended := f.end(lane.Job, dlq.JobCancelled)
		require.Equal(t, dlq.JobCounts{Retried: dlq.PageSize, Skipped: 50}, ended.Counts)
		finalizeLate()
		f.requireFenced(newer, dlqtest.Outcomes(page, dlq.ResultDelivered))
		require.Equal(t, ended.Counts, f.job(lane.Job).Counts)
	},

	"an older attempt does not get the lane back": func(t *testing.T, f fixture) {
		b := f.startBulk(dlqtest.Bulk("orders", 1))
		at := time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC)
		open := func(scheduled time.Time, number int) error {
			_, err := f.OpenLane(t.Context(), b.ID, 0, dlq.LaneAttempt{Scheduled: scheduled, Number: number})
			return err
		}
		require.NoError(t, open(at, 2))
		require.ErrorIs(t, open(at, 1), dlq.ErrFenced)
		require.NoError(t, open(at, 2), "the same attempt again")
		require.NoError(t, open(at.Add(time.Second), 1), "of a later activity")
		require.ErrorIs(t, open(at, 3), dlq.ErrFenced)
	},

	"a fenced attempt can only record deliveries": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(dlq.PageSize)...)
		lane := dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0)
		older := f.openLane(lane)
		page := f.claimPage(older)
		newer := f.openLane(lane)
		left := f.claimed(newer)
		require.Equal(t, page, left)
		f.requireFenced(older, dlqtest.Outcomes(page, dlq.ResultFailed))
		f.requireFenced(older, nil)
		require.Equal(t, dlq.LaneClaim{Stopped: true}, f.tryClaim(older))
		require.Empty(t, f.claimed(older))
		require.NoError(t, f.ReleasePage(t.Context(), older))
		require.EqualValues(t, dlq.PageSize, f.retrying())
		require.Equal(t, dlq.JobCounts{Retried: dlq.PageSize}, f.finalizePage(newer, dlqtest.Outcomes(left, dlq.ResultDelivered)))
		require.Empty(t, f.claimPage(newer))
	},

	"a paused bulk retry can be cancelled": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(5)...)
		b := f.startBulk(dlqtest.Bulk("orders", 1))
		lane := dlqtest.Lane(b, 0)
		page := f.claimPage(lane)
		f.finalizePage(lane, []dlq.PageOutcome{outcome(page[0], dlq.ResultDelivered), outcome(page[1], dlq.ResultSkipped)})
		f.pause(b.ID, "")
		ended := f.end(b.ID, dlq.JobCancelled)
		require.Equal(t, dlq.JobCancelled, ended.State)
		require.Equal(t, dlq.JobCounts{Retried: 1, Skipped: 4}, ended.Counts)
		require.Equal(t, ended.Matched, ended.Counts.Done())
	},

	"an unknown bulk retry cannot be changed": func(t *testing.T, f fixture) {
		id := dlq.NewID()
		_, err := f.PauseJob(t.Context(), nil, id, "")
		require.ErrorIs(t, err, dlq.ErrNotFound)
		_, err = f.ResumeJob(t.Context(), nil, id)
		require.ErrorIs(t, err, dlq.ErrNotFound)
		_, err = f.StopJob(t.Context(), nil, id, dlq.JobPausing, "")
		require.ErrorIs(t, err, dlq.ErrNotFound)
		require.ErrorIs(t, f.SetJobRate(t.Context(), nil, id, 1), dlq.ErrNotFound)
		require.ErrorIs(t, f.SetStepLimit(t.Context(), id, nil), dlq.ErrNotFound)
		_, err = f.EndJob(t.Context(), nil, f.startBulk(dlqtest.Bulk("orders", 1)).ID, dlq.JobPaused, "")
		require.Error(t, err, "a pause is not an end")
	},

	"bulk retries run until they end": func(t *testing.T, f fixture) {
		started := make([]dlq.ID, 5)
		for i := range started {
			started[i] = f.startBulk(dlqtest.Bulk(fmt.Sprint("topic-", i), 2)).ID
		}
		f.pause(started[1], "")
		for i, state := range []dlq.JobState{dlq.JobCompleted, dlq.JobFailed} {
			f.end(started[2+i], state)
		}
		running, err := f.RunningRetries(t.Context())
		require.NoError(t, err)
		var found []dlq.ID
		for _, b := range running {
			found = append(found, b.ID)
		}
		require.Equal(t, []dlq.ID{started[4], started[1], started[0]}, found, "the newest first")
		require.Equal(t, dlq.JobPaused, running[1].State)
	},

	"the recent rate counts processed messages": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(60)...)
		b := f.startBulk(dlqtest.Bulk("orders", 2))
		require.Zero(t, b.RecentPerSecond)
		processed := 0
		for number := range 2 {
			lane := dlqtest.Lane(b, number)
			page := f.claimPage(lane)
			outcomes := dlqtest.Outcomes(page, dlq.ResultDelivered)
			outcomes[0], outcomes[1] = outcome(page[0], dlq.ResultSkipped), outcome(page[1], dlq.ResultWaiting)
			outcomes[2] = outcome(page[2], dlq.ResultFailed)
			f.finalizePage(lane, outcomes)
			processed += len(page) - 2
		}
		found := f.job(b.ID)
		require.LessOrEqual(t, found.RecentPerSecond, float64(processed))
		elapsed := max(1, time.Since(b.StartedAt).Seconds()+1) // the clocks of two programs differ
		require.Greater(t, found.RecentPerSecond, float64(processed)/min(10, elapsed)*0.5)
	},

	"pauses and ends that race with the lanes lose nothing": func(t *testing.T, f fixture) {
		const lanes, messages = 4, 1500
		arrivals := dlqtest.Arrivals(messages)
		for i := range arrivals {
			arrivals[i].Record.Key = fmt.Appendf(nil, "key-%d", i%97)
		}
		f.store(arrivals...)
		b := f.startBulk(dlqtest.Bulk("orders", lanes))
		failures := make([]error, lanes)
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
					claim, err := f.ClaimPage(t.Context(), lane, true)
					if err == nil && claim.Stopped {
						if lane, err = f.OpenLane(t.Context(), b.ID, number, dlq.LaneAttempt{}); err == nil {
							err = f.ReleasePage(t.Context(), lane)
						}
						time.Sleep(time.Millisecond) // otherwise this goroutine would only open lanes
					}
					if err == nil && len(claim.Page) > 0 {
						from := rand.IntN(len(claim.Page) + 1) //nolint:gosec // any number will do; the rest is requeued
						outcomes := append(dlqtest.Outcomes(claim.Page[:from], dlq.ResultDelivered), dlqtest.Outcomes(claim.Page[from:], dlq.ResultWaiting)...)
						_, err = f.FinalizePage(t.Context(), lane, outcomes)
					}
					if err != nil && !errors.Is(err, dlq.ErrFenced) && !errors.Is(err, dlq.ErrBlocked) {
						failures[number] = err
						return
					}
				}
			})
		}
		for range 15 {
			f.pause(b.ID, "race")
			require.Zero(t, f.retrying())
			before := f.job(b.ID).Counts.Retried
			f.resume(b.ID)
			require.Eventually(t, func() bool {
				now := f.job(b.ID).Counts.Retried
				return now > before || now == messages
			}, 20*time.Second, time.Millisecond)
		}
		ended := f.end(b.ID, dlq.JobCancelled)
		require.Zero(t, f.retrying())
		close(stop)
		group.Wait()
		require.NoError(t, errors.Join(failures...))
		require.Equal(t, ended.Counts, f.job(b.ID).Counts)
		require.Equal(t, ended.Matched, ended.Counts.Done())
		resolved := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders", Statuses: []dlq.Status{dlq.StatusResolved}}, PageSize: messages})
		// A delivery that was acknowledged after its claim was lost is an attempt. After the end of the job it is not counted.
		late := int64(0)
		for _, m := range resolved.Messages {
			if slices.ContainsFunc(f.detail(m.ID).Attempts, func(a dlq.Attempt) bool { return a.Result == dlq.ResultDelivered }) {
				late++
			}
		}
		require.LessOrEqual(t, ended.Counts.Retried, resolved.Total)
		require.GreaterOrEqual(t, ended.Counts.Retried, resolved.Total-late, "all other deliveries are counted")
		pending := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders", Statuses: []dlq.Status{dlq.StatusPending}}, PageSize: messages})
		require.EqualValues(t, messages, resolved.Total+pending.Total)
		for _, m := range pending.Messages {
			require.Zero(t, m.RetryCount)
		}
	},

	"two workers that requeue on one lane lose nothing": func(t *testing.T, f fixture) {
		const messages = 600
		f.store(dlqtest.Arrivals(messages)...)
		lane := dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0)
		failures := make([]error, 2)
		var group sync.WaitGroup
		for w := range failures {
			group.Go(func() {
				for {
					claim, err := f.ClaimPage(t.Context(), lane, true)
					if errors.Is(err, dlq.ErrUnfinished) {
						continue // the other worker has a page
					}
					if failures[w] = err; err != nil || len(claim.Page) == 0 && claim.Wait == 0 {
						return
					}
					outcomes := dlqtest.Outcomes(claim.Page, dlq.ResultDelivered)
					for i, e := range claim.Page {
						if rand.IntN(2) == 0 { //nolint:gosec // any mixture will do
							outcomes[i] = outcome(e, dlq.ResultWaiting)
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
		require.EqualValues(t, messages, f.job(lane.Job).Counts.Retried, "no message was left when the lane ended")
	},
}
