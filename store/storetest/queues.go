package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// requeued is the outcome that puts a message into a queue.
func requeued(e dlq.PageEnvelope, wait dlq.Wait) dlq.PageOutcome {
	o := outcome(e, dlq.ResultWaiting)
	o.Wait = wait
	return o
}

// requeuedPage has the outcome requeued for each message of a page.
func requeuedPage(page []dlq.PageEnvelope, wait dlq.Wait) []dlq.PageOutcome {
	outcomes := make([]dlq.PageOutcome, len(page))
	for i := range page {
		outcomes[i] = requeued(page[i], wait)
	}
	return outcomes
}

// delivered is the outcome of a message that its target acknowledged.
func delivered(e dlq.PageEnvelope, target dlq.Target) dlq.PageOutcome {
	o := outcome(e, dlq.ResultDelivered)
	o.Target = target
	return o
}

// keyQueue is the queue of a key.
func keyQueue(tries int, pause time.Duration) dlq.Wait {
	return dlq.Wait{Target: dlq.Target{Topic: "orders", Partition: dlq.AnyPartition}, OfKey: true, Tries: tries, For: pause}
}

// claimEventually claims until the lane has a page.
func (f fixture) claimEventually(lane dlq.Lane) (claim dlq.LaneClaim) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		claim = f.tryClaim(lane)
		return len(claim.Page) > 0
	}, 10*time.Second, 5*time.Millisecond)
	return claim
}

// keyed returns an arrival for each key.
func keyed(keys ...string) []dlq.Arrival {
	arrivals := make([]dlq.Arrival, len(keys))
	for i, key := range keys {
		arrivals[i] = dlqtest.Arrival(dlqtest.Key(key))
	}
	return arrivals
}

// startLane starts a bulk retry of orders in one lane.
func (f fixture) startLane(options ...func(*dlq.JobSpec)) dlq.Lane {
	f.t.Helper()
	return f.openLane(dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1, options...)), 0))
}

var (
	partition0   = dlq.Target{Topic: "orders", Partition: 0}
	anyPartition = dlq.Target{Topic: "orders", Partition: dlq.AnyPartition}
)

var queues = map[string]func(*testing.T, fixture){
	"messages of a closed target wait while others are sent": func(t *testing.T, f fixture) {
		stored := f.store(keyed("a", "b", "c", "a", "b", "d")...)
		lane := f.startLane()
		f.setStepLimit(lane.Job, 4)
		page := f.tryClaim(lane).Page
		require.Equal(t, ids(stored[:4]), envelopeIDs(page))
		// The message b is delivered to another partition.
		outcomes := requeuedPage(page, dlq.Wait{Target: partition0, Tries: 1, For: time.Hour})
		outcomes[1] = delivered(page[1], dlq.Target{Topic: "orders", Partition: 1})
		require.Equal(t, dlq.JobCounts{Retried: 1}, f.finalizePage(lane, outcomes))
		b := f.job(lane.Job)
		require.EqualValues(t, 3, b.Waiting)
		require.Equal(t, "broker unavailable", b.Reason)
		for _, i := range []int{0, 2, 3} {
			m := f.message(stored[i].ID)
			require.Equal(t, dlq.StatusPending, m.Status)
			require.Zero(t, m.RetryCount)
			require.Empty(t, f.detail(m.ID).Attempts)
		}

		claim := f.tryClaim(lane)
		require.Equal(t, ids(stored[4:]), envelopeIDs(claim.Page), "requeued messages do not count for the step limit")
		require.Equal(t, []dlq.Target{partition0}, claim.Closed)
		require.Nil(t, claim.Queue)
		f.finalizePage(lane, dlqtest.Outcomes(claim.Page, dlq.ResultDelivered))
		require.NoError(t, f.SetStepLimit(t.Context(), lane.Job, nil))
		claim = f.tryClaim(lane)
		require.Empty(t, claim.Page)
		require.Equal(t, partition0, claim.Next.Target)
		require.Equal(t, 1, claim.Next.Tries)
		require.Greater(t, claim.Next.Due, 59*time.Minute)
		require.Equal(t, "broker unavailable", claim.Next.Reason)
		require.Equal(t, dlq.CategoryTransient, claim.Next.Category)
		ended := f.end(lane.Job, dlq.JobCancelled)
		require.Equal(t, dlq.JobCounts{Retried: 3, Skipped: 3}, ended.Counts)
		require.Zero(t, ended.Waiting)
	},

	"one message at a time tries a closed target": func(t *testing.T, f fixture) {
		for _, opens := range []dlq.Target{partition0, anyPartition} {
			stored := f.store(keyed("a", "a", "b", "c", "b")...)
			lane := f.startLane()
			require.False(t, f.hasClosedTarget(lane.Job))
			closed := opens
			f.finalizePage(lane, requeuedPage(f.tryClaim(lane).Page, dlq.Wait{Target: closed, Tries: 1, For: 10 * time.Millisecond}))
			var asked []dlq.ID
			for tries := 1; tries <= 4; tries++ {
				claim := f.claimEventually(lane)
				require.Len(t, claim.Page, 1)
				require.Equal(t, closed, claim.Queue.Target)
				require.Equal(t, tries, claim.Queue.Tries)
				require.Equal(t, 3, claim.Queue.Keys)
				require.Equal(t, []dlq.Target{closed}, claim.Closed)
				asked = append(asked, claim.Page[0].ID)
				require.True(t, f.hasClosedTarget(lane.Job))
				if tries < 4 {
					f.finalizePage(lane, requeuedPage(claim.Page, dlq.Wait{Target: closed, Tries: tries + 1, For: 10 * time.Millisecond}))
					require.EqualValues(t, 5, f.job(lane.Job).Waiting)
					continue
				}
				f.finalizePage(lane, []dlq.PageOutcome{delivered(claim.Page[0], dlq.Target{Topic: "orders", Partition: 0})})
			}
			require.Equal(t, []dlq.ID{stored[2].ID, stored[3].ID, stored[0].ID, stored[2].ID}, asked, "the first of each key in turn")
			require.False(t, f.hasClosedTarget(lane.Job))
			claim := f.tryClaim(lane)
			require.Empty(t, claim.Closed)
			require.Equal(t, []dlq.ID{stored[0].ID, stored[1].ID, stored[3].ID, stored[4].ID}, envelopeIDs(claim.Page), "all others at once, in order")
			f.finalizePage(lane, dlqtest.Outcomes(claim.Page, dlq.ResultDelivered))
			require.Empty(t, f.drain(lane))
			require.Equal(t, dlq.JobCounts{Retried: 5}, f.end(lane.Job, dlq.JobCompleted).Counts)
		}
	},

	"lanes share the state of a target": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(40)...)
		b := f.startBulk(dlqtest.Bulk("orders", 2))
		lanes := []dlq.Lane{f.openLane(dlqtest.Lane(b, 0)), f.openLane(dlqtest.Lane(b, 1))}
		for _, lane := range lanes {
			f.finalizePage(lane, requeuedPage(f.tryClaim(lane).Page, dlq.Wait{Target: partition0, Tries: 1, For: 10 * time.Millisecond}))
		}
		claimed := make([]dlq.LaneClaim, len(lanes))
		require.Eventually(t, func() bool {
			var group sync.WaitGroup
			for i, lane := range lanes {
				group.Go(func() { claimed[i], _ = f.ClaimPage(t.Context(), lane, true) })
			}
			group.Wait()
			return len(claimed[0].Page)+len(claimed[1].Page) > 0
		}, 10*time.Second, 5*time.Millisecond)
		require.Equal(t, 1, len(claimed[0].Page)+len(claimed[1].Page), "one message of all lanes tries the target")
		for i, lane := range lanes {
			if len(claimed[i].Page) == 0 {
				require.Greater(t, f.tryClaim(lane).Next.Due, 10*time.Second, "one is in flight")
			}
		}
		for i, lane := range lanes {
			for _, e := range claimed[i].Page {
				f.finalizePage(lane, []dlq.PageOutcome{delivered(e, partition0)})
			}
		}
		delivered := 1 + len(f.drain(lanes[0])) + len(f.drain(lanes[1]))
		require.Equal(t, 40, delivered)
	},

	"a message that is refused by itself blocks its key only": func(t *testing.T, f fixture) {
		stored := f.store(keyed("a", "b", "a", "b", "a")...)
		lane := f.startLane()
		f.setStepLimit(lane.Job, 3)
		page := f.tryClaim(lane).Page
		outcomes := dlqtest.Outcomes(page, dlq.ResultDelivered)
		outcomes[0], outcomes[2] = requeued(page[0], keyQueue(1, time.Hour)), requeued(page[2], dlq.Wait{Target: partition0})
		f.finalizePage(lane, outcomes)
		require.NoError(t, f.SetStepLimit(t.Context(), lane.Job, nil))
		claim := f.claimEventually(lane)
		require.Equal(t, []dlq.ID{stored[3].ID}, envelopeIDs(claim.Page), "neither the one in the other queue nor the one in the scan")
		require.Empty(t, claim.Closed)
		f.finalizePage(lane, dlqtest.Outcomes(claim.Page, dlq.ResultDelivered))
		require.EqualValues(t, 3, f.job(lane.Job).Waiting)
		require.Empty(t, f.tryClaim(lane).Page)
		f.end(lane.Job, dlq.JobCancelled)

		lane = f.startLane()
		page = f.tryClaim(lane).Page
		outcomes = requeuedPage(page, keyQueue(0, 0))
		outcomes[0] = requeued(page[0], keyQueue(1, 0))
		f.finalizePage(lane, outcomes)
		claim = f.claimEventually(lane)
		require.True(t, claim.Queue.OfKey())
		require.Equal(t, 1, claim.Queue.Tries)
		require.Equal(t, []dlq.ID{stored[0].ID, stored[2].ID, stored[4].ID}, envelopeIDs(claim.Page), "once it is due, in order")
	},

	"a target that rejected a message is open": func(t *testing.T, f fixture) {
		f.store(keyed("a", "b", "c")...)
		lane := f.startLane()
		f.finalizePage(lane, requeuedPage(f.tryClaim(lane).Page, dlq.Wait{Target: partition0, Tries: 1}))
		page := f.tryClaim(lane).Page
		require.Len(t, page, 1)
		bad := outcome(page[0], dlq.ResultRejected)
		bad.Target = partition0
		f.finalizePage(lane, []dlq.PageOutcome{bad})
		require.Len(t, f.tryClaim(lane).Page, 2)
	},

	"messages that another client has finished leave their queue": func(t *testing.T, f fixture) {
		stored := f.store(keyed("a", "b", "c", "d", "e", "f")...)
		lane := f.startLane()
		f.finalizePage(lane, requeuedPage(f.tryClaim(lane).Page, dlq.Wait{Target: partition0, Tries: 1}))
		f.retry(stored[0].ID, dlq.ResultDelivered)
		f.retry(stored[1].ID, dlq.ResultFailed)
		f.retry(stored[2].ID, dlq.ResultReleased)
		require.NoError(t, f.Delete(t.Context(), nil, stored[3].ID))
		_, err := f.MarkDead(t.Context(), nil, stored[4].ID)
		require.NoError(t, err)
		page := f.claimEventually(lane).Page
		require.Equal(t, []dlq.ID{stored[5].ID}, envelopeIDs(page))
		require.Zero(t, f.job(lane.Job).Waiting)
		f.finalizePage(lane, []dlq.PageOutcome{delivered(page[0], partition0)})
		require.Empty(t, f.drain(lane))
		ended := f.end(lane.Job, dlq.JobCompleted)
		require.EqualValues(t, 6, ended.Matched)
		require.Equal(t, dlq.JobCounts{Retried: 1, Skipped: 5}, ended.Counts)
	},

	"limits also apply to claims from queues": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(30)...)
		lane := f.startLane()
		f.finalizePage(lane, requeuedPage(f.tryClaim(lane).Page, dlq.Wait{Target: partition0}))
		f.setStepLimit(lane.Job, 3)
		claim := f.tryClaim(lane)
		require.Len(t, claim.Page, 3)
		require.NotNil(t, claim.Queue)
		require.True(t, claim.Limited)
		f.finalizePage(lane, dlqtest.Outcomes(claim.Page, dlq.ResultDelivered))
		require.True(t, f.tryClaim(lane).StepLimitReached)
		require.NoError(t, f.SetStepLimit(t.Context(), lane.Job, nil))
		require.NoError(t, f.SetJobRate(t.Context(), nil, lane.Job, 50))
		began, claimed := time.Now(), 0
		for range 10 {
			claim := f.tryClaim(lane)
			require.LessOrEqual(t, len(claim.Page), 5)
			claimed += len(claim.Page)
			f.finalizePage(lane, dlqtest.Outcomes(claim.Page, dlq.ResultDelivered))
		}
		require.NotZero(t, claimed)
		require.LessOrEqual(t, float64(claimed), 50*(time.Since(began)+200*time.Millisecond).Seconds())
	},

	"an outcome of an earlier claim changes nothing": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(1)...)
		lane := f.startLane()
		page := f.tryClaim(lane).Page
		stale := dlqtest.Outcomes(page, dlq.ResultDelivered)
		f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultFailed))
		f.end(lane.Job, dlq.JobCompleted)
		lane = f.startLane()
		page = f.tryClaim(lane).Page
		require.Equal(t, 2, page[0].RetryCount)
		result, err := f.FinalizePage(t.Context(), lane, stale)
		require.NoError(t, err)
		require.Zero(t, result)
		require.Equal(t, dlq.StatusRetrying, f.message(stored[0].ID).Status)
	},

	"a released page is claimed again at once": func(t *testing.T, f fixture) {
		stored := f.store(keyed("a", "b", "a")...)
		lane := f.startLane()
		f.claimPage(lane)
		lane = f.openLane(lane)
		for range 2 {
			require.NoError(t, f.ReleasePage(t.Context(), lane))
			require.Zero(t, f.retrying())
			require.Zero(t, f.message(stored[0].ID).RetryCount)
			require.EqualValues(t, 3, f.job(lane.Job).Waiting)
		}
		require.Equal(t, ids(stored), f.drain(lane))
	},

	"a bulk retry that is pausing or cancelling claims nothing and finalizes its pages": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(dlq.PageSize + 1)...)
		lane := f.startLane()
		page := f.claimPage(lane)
		stopping := f.stop(lane.Job, dlq.JobPausing, "operator")
		require.Equal(t, dlq.JobPausing, stopping.State)
		require.Equal(t, "operator", stopping.Reason)
		require.Nil(t, stopping.EndedAt)
		require.Equal(t, dlq.LaneClaim{Stopped: true}, f.tryClaim(lane))
		require.Equal(t, dlq.JobCounts{Retried: 10}, f.finalizePage(lane, dlqtest.Outcomes(page[:10], dlq.ResultDelivered)))
		require.Equal(t, dlq.JobRunning, f.resume(lane.Job).State, "before it has paused")
		f.stop(lane.Job, dlq.JobPausing, "operator")
		f.finalizePage(lane, dlqtest.Outcomes(page[10:], dlq.ResultDelivered))
		require.Equal(t, dlq.JobPaused, f.pause(lane.Job, "operator").State)
		require.Equal(t, dlq.JobPaused, f.stop(lane.Job, dlq.JobPausing, "again").State)
		require.Equal(t, dlq.JobRunning, f.resume(lane.Job).State)
		page = f.claimPage(lane)
		require.Len(t, page, 1)

		require.Equal(t, dlq.JobCancelling, f.stop(lane.Job, dlq.JobCancelling, "enough").State)
		require.Equal(t, dlq.LaneClaim{Stopped: true}, f.tryClaim(lane))
		for _, b := range []dlq.Job{f.pause(lane.Job, "late"), f.resume(lane.Job), f.stop(lane.Job, dlq.JobPausing, "late")} {
			require.Equal(t, dlq.JobCancelling, b.State)
			require.Equal(t, "enough", b.Reason)
		}
		require.Equal(t, dlq.JobCounts{Retried: dlq.PageSize + 1}, f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultDelivered)))
		ended := f.end(lane.Job, dlq.JobCancelled)
		require.Equal(t, dlq.JobCounts{Retried: dlq.PageSize + 1}, ended.Counts)
		require.Equal(t, dlq.JobCancelled, f.stop(lane.Job, dlq.JobCancelling, "late").State)
	},

	"a resumed bulk retry tries closed targets at once": func(t *testing.T, f fixture) {
		f.store(keyed("a", "b")...)
		lane := f.startLane()
		f.finalizePage(lane, requeuedPage(f.tryClaim(lane).Page, dlq.Wait{Target: partition0, Tries: 7, For: time.Hour}))
		require.Empty(t, f.tryClaim(lane).Page)
		require.EqualValues(t, 2, f.pause(lane.Job, "operator").Waiting)
		require.Equal(t, "operator", f.job(lane.Job).Reason)
		require.Equal(t, "broker unavailable", f.resume(lane.Job).Reason)
		require.Len(t, f.tryClaim(lane).Page, 1)
	},
}
