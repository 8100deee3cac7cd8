package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

var pages = map[string]func(*testing.T, fixture){
	"pages are claimed in the order of arrival until none is left": func(t *testing.T, f fixture) {
		a := dlqtest.Arrivals(2*dlq.PageSize + 50)
		f.store(a...)
		b := f.startBulk(dlqtest.Bulk("orders", 1))
		lane := dlqtest.Lane(b, 0)
		var claimed []dlq.ID
		for _, want := range []int{dlq.PageSize, dlq.PageSize, 50, 0} {
			page := f.claimPage(lane)
			require.Len(t, page, want)
			for _, e := range page {
				require.Equal(t, 1, e.RetryCount)
				require.Equal(t, "orders", e.OriginalTopic)
			}
			claimed = append(claimed, envelopeIDs(page)...)
			f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultFailed)) // PENDING again, but behind the cursor
		}
		require.Equal(t, arrivalIDs(a), claimed)
		m := f.message(a[0].ID)
		require.Equal(t, lane.Owner, m.Owner)
		require.Equal(t, dlq.StatusPending, m.Status)
	},

	"a page carries whole records": func(t *testing.T, f fixture) {
		hostile := dlqtest.Hostile()
		var arrivals []dlq.Arrival
		for _, a := range hostile {
			arrivals = append(arrivals, a)
		}
		f.store(arrivals...)
		page := f.claimPage(dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0))
		require.Equal(t, arrivalIDs(arrivals), envelopeIDs(page))
		for i, a := range arrivals {
			require.Equal(t, a.Record, page[i].Record)
		}
	},

	"one key is in one lane, and lanes do not overlap": func(t *testing.T, f fixture) {
		const lanes, messages = 4, 600
		arrivals := dlqtest.Arrivals(messages)
		for i := range arrivals {
			if i%3 == 0 {
				arrivals[i].Record.Key = nil
			} else {
				arrivals[i].Record.Key = fmt.Appendf(nil, "key-%d", i%17)
			}
		}
		f.store(arrivals...)
		b := f.startBulk(dlqtest.Bulk("orders.dlq", lanes))
		claimed := make([][]dlq.PageEnvelope, lanes)
		failures := make([]error, lanes)
		var group sync.WaitGroup
		for number := range lanes {
			group.Go(func() {
				lane := dlqtest.Lane(b, number)
				for {
					claim, err := f.ClaimPage(t.Context(), lane, true)
					page := claim.Page
					if err == nil && len(page) > 0 {
						_, err = f.FinalizePage(t.Context(), lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
					}
					claimed[number] = append(claimed[number], page...)
					if failures[number] = err; err != nil || len(page) == 0 {
						return
					}
				}
			})
		}
		group.Wait()
		require.NoError(t, errors.Join(failures...))
		laneOf := map[string]int{}
		for number, envelopes := range claimed {
			newest := map[string]int64{}
			for _, e := range envelopes {
				if e.Record.Key == nil {
					continue
				}
				key := string(e.Record.Key)
				if known, ok := laneOf[key]; ok {
					require.Equal(t, known, number)
				}
				laneOf[key] = number
				require.Greater(t, e.Seq, newest[key], "a key keeps its order")
				newest[key] = e.Seq
			}
			require.NotEmpty(t, envelopes, "every lane has work")
		}
		require.ElementsMatch(t, arrivalIDs(arrivals), envelopeIDs(slices.Concat(claimed...)))
		ended, err := f.EndJob(t.Context(), nil, b.ID, dlq.JobCompleted, "")
		require.NoError(t, err)
		require.Equal(t, dlq.JobCounts{Retried: messages}, ended.Counts)
	},

	"workers on one lane do not overlap": func(t *testing.T, f fixture) {
		arrivals := dlqtest.Arrivals(5 * dlq.PageSize)
		f.store(arrivals...)
		lane := dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0)
		const workers = 3
		claimed := make([][]dlq.PageEnvelope, workers)
		failures := make([]error, workers)
		var group sync.WaitGroup
		for w := range workers {
			group.Go(func() {
				for {
					claim, err := f.ClaimPage(t.Context(), lane, true)
					if errors.Is(err, dlq.ErrUnfinished) {
						continue // another worker has a page
					}
					page := claim.Page
					claimed[w] = append(claimed[w], page...)
					if err == nil {
						_, err = f.FinalizePage(t.Context(), lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
					}
					if failures[w] = err; err != nil || len(page) == 0 && claim.Wait == 0 {
						return
					}
				}
			})
		}
		group.Wait()
		require.NoError(t, errors.Join(failures...))
		require.ElementsMatch(t, arrivalIDs(arrivals), envelopeIDs(slices.Concat(claimed...)))
	},

	"a page that a crash left behind is found again": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(2 * dlq.PageSize)...)
		b := f.startBulk(dlqtest.Bulk("orders", 2))
		first, other := dlqtest.Lane(b, 0), dlqtest.Lane(b, 1)
		page := f.claimPage(first)
		f.claimPage(other)
		f.finalizePage(first, dlqtest.Outcomes(page[:10], dlq.ResultDelivered))

		again := f.claimed(first)
		require.Equal(t, page[10:], again, "exactly these, in the same order, with the same count")
		f.finalizePage(first, dlqtest.Outcomes(again, dlq.ResultDelivered))
		require.Empty(t, f.claimed(first))
	},

	"nothing is claimed before a page that a restore of the database brought back": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(dlq.PageSize + 1)...)
		lane := dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0)
		page := f.claimPage(lane) // the attempt believes that it has finalized the page
		claim, err := f.ClaimPage(t.Context(), lane, true)
		require.ErrorIs(t, err, dlq.ErrUnfinished)
		require.Empty(t, claim.Page)
		require.Equal(t, page, f.claimed(lane))

		f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
		require.Len(t, f.tryClaim(lane).Page, 1)
	},

	"a page whose claim got no answer is found, also after the last message of a step": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(2)...)
		lane := dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0)
		require.NoError(t, f.SetStepLimit(t.Context(), lane.Job, new(int64(1))))
		page := f.tryClaim(lane).Page
		require.Len(t, page, 1)
		claim, err := f.ClaimPage(t.Context(), lane, true)
		require.ErrorIs(t, err, dlq.ErrUnfinished)
		require.Empty(t, claim.Page)

		f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
		require.True(t, f.tryClaim(lane).StepLimitReached)
	},

	"a message of a page that another client has finalized holds up nothing": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(dlq.PageSize + 1)...)
		lane := dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0)
		for _, e := range f.claimPage(lane) {
			_, err := f.MarkDead(t.Context(), nil, e.ID)
			require.NoError(t, err)
		}
		require.Len(t, f.tryClaim(lane).Page, 1)
	},

	"a page is bounded in bytes": func(t *testing.T, f fixture) {
		const part = 1 << 20
		var arrivals []dlq.Arrival
		for range 10 {
			arrivals = append(arrivals, dlqtest.Arrival(dlqtest.Value(strings.Repeat("x", part))))
		}
		arrivals[4].Record.Value = []byte(strings.Repeat("y", 3*dlq.PageBytes))
		stored := f.store(arrivals...)
		lane := f.openLane(dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0))
		for _, want := range [][]dlq.Message{stored[:3], stored[3:4], stored[4:5], stored[5:8], stored[8:]} {
			claim := f.tryClaim(lane)
			require.Equal(t, ids(want), envelopeIDs(claim.Page))
			whole, err := f.ClaimedPage(t.Context(), lane, claim.Bytes)
			require.NoError(t, err)
			require.Equal(t, claim.Bytes, whole.Bytes)
			for _, e := range whole.Page {
				require.Equal(t, f.detail(e.ID).Record, e.Record)
			}
			if claim.Bytes <= dlq.PageBytes {
				require.Equal(t, whole.Page, claim.Page)
			} else {
				require.Equal(t, ids(stored[4:5]), ids(want), "a large message has its own page")
			}
			// When the messages are requeued, they are claimed from a queue in the same way.
			f.finalizePage(lane, requeuedPage(claim.Page, keyQueue(1, 0)))
			var again []dlq.ID
			for range want { // each message has a key of its own
				page := f.claimEventually(lane).Page
				again = append(again, envelopeIDs(page)...)
				f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
			}
			require.ElementsMatch(t, ids(want), again)
		}
		require.Equal(t, dlq.JobCounts{Retried: 10}, f.job(lane.Job).Counts)
	},

	"a page in the queue of a target is bounded in bytes": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(10, dlqtest.Value(strings.Repeat("x", 1<<20)))...)
		lane := f.startLane()
		for range 4 {
			page := f.claimed(lane)
			if len(page) == 0 {
				page = f.tryClaim(lane).Page
			}
			f.finalizePage(lane, requeuedPage(page, dlq.Wait{Target: partition0, Tries: 1, For: time.Hour}))
		}
		f.pause(lane.Job, "operator")
		f.resume(lane.Job)
		page := f.tryClaim(lane).Page // one message tries the target
		require.Equal(t, ids(stored[1:2]), envelopeIDs(page))
		f.finalizePage(lane, []dlq.PageOutcome{delivered(page[0], partition0)})
		require.Equal(t, []dlq.ID{stored[0].ID, stored[2].ID, stored[3].ID}, envelopeIDs(f.claimEventually(lane).Page))
	},

	"a page is counted once": func(t *testing.T, f fixture) {
		stored := f.store(append(dlqtest.Arrivals(7), dlqtest.Arrival(dlqtest.Retries(2, 3)))...)
		b := f.startBulk(dlqtest.Bulk("orders", 1))
		lane := dlqtest.Lane(b, 0)
		page := f.claimPage(lane)
		require.Len(t, page, 8)
		for _, m := range stored[5:7] {
			_, err := f.MarkDead(t.Context(), nil, m.ID)
			require.NoError(t, err)
		}

		outcomes := dlqtest.Outcomes(page, dlq.ResultDelivered)
		outcomes[6] = outcome(page[6], dlq.ResultFailed) // stored[6] stays DEAD, and stored[5] was delivered
		outcomes[2] = outcome(page[2], dlq.ResultFailed)
		outcomes[3] = outcome(page[3], dlq.ResultRejected)
		outcomes[4] = outcome(page[4], dlq.ResultWaiting)
		outcomes[7] = outcome(page[7], dlq.ResultFailed) // the last retry of this message
		outcomes[0].Outcome = acknowledged(outcomes[0].Outcome, 3, 1<<40)
		outcomes = append(outcomes, outcome(page[0], dlq.ResultFailed), dlq.PageOutcome{Outcome: dlqtest.Delivered(dlq.NewID()), RetryCount: 1})
		want := dlq.JobCounts{Retried: 3, Failed: 1, Dead: 2}
		first, err := f.FinalizePage(t.Context(), lane, outcomes)
		require.NoError(t, err)
		require.Equal(t, dlq.PageResult{Counts: want, Ended: 7}, first)
		require.Equal(t, want, f.finalizePage(lane, outcomes), "again, as after a lost response")
		require.Equal(t, want, f.finalizePage(lane, nil))

		for i, status := range []dlq.Status{dlq.StatusResolved, dlq.StatusResolved, dlq.StatusPending, dlq.StatusDead,
			dlq.StatusPending, dlq.StatusResolved, dlq.StatusDead, dlq.StatusDead} {
			require.Equal(t, status, f.message(stored[i].ID).Status, i)
		}
		for i, resolution := range []dlq.Resolution{dlq.ResolutionDelivered, dlq.ResolutionDelivered, "", dlq.ResolutionRefused,
			"", dlq.ResolutionDelivered, dlq.ResolutionGivenUp, dlq.ResolutionExhausted} {
			require.Equal(t, resolution, f.message(stored[i].ID).Resolution, i)
		}
		known, unknown := f.message(stored[0].ID), f.message(stored[1].ID)
		require.Equal(t, []any{int32(3), int64(1 << 40)}, []any{*known.TargetPartition, *known.TargetOffset})
		require.Nil(t, unknown.TargetPartition, "its offset is unknown")
		require.Nil(t, unknown.TargetOffset)
		for i, attempts := range []int{0, 0, 1, 1, 0, 0, 0, 1} {
			require.Len(t, f.detail(stored[i].ID).Attempts, attempts, i)
		}
		require.Equal(t, []int{1, 0}, []int{f.message(stored[2].ID).RetryCount, f.message(stored[4].ID).RetryCount})
		found, err := f.Job(t.Context(), b.ID)
		require.NoError(t, err)
		require.Equal(t, want, found.Counts)
	},

	"a lane that does not exist is not found": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrival())
		lane := dlqtest.Lane(dlqtest.Bulk("orders", 1), 0)
		lane.UpperBound = 1 << 40
		_, err := f.FinalizePage(t.Context(), lane, nil)
		require.ErrorIs(t, err, dlq.ErrFenced)
		require.Empty(t, f.claimPage(lane))
		_, err = f.OpenLane(t.Context(), lane.Job, lane.Number, dlq.LaneAttempt{})
		require.ErrorIs(t, err, dlq.ErrNotFound)
		_, err = f.Job(t.Context(), lane.Job)
		require.ErrorIs(t, err, dlq.ErrNotFound)
		_, err = f.EndJob(t.Context(), nil, lane.Job, dlq.JobCancelled, "")
		require.ErrorIs(t, err, dlq.ErrNotFound)
	},
}
