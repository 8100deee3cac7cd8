package storetest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// lose claims the message for a new owner, whose claim the sweeper then releases.
func (f fixture) lose(id dlq.ID) dlq.Owner {
	f.t.Helper()
	owner := f.claim(id)
	_, err := f.Release(f.t.Context(), owner, "terminated")
	require.NoError(f.t, err)
	return owner
}

// acknowledge finalizes a retry whose target has the message at the offset.
func (f fixture) acknowledge(owner dlq.Owner, id dlq.ID, offset int64) (dlq.Message, bool) {
	f.t.Helper()
	m, ended, err := f.Finalize(f.t.Context(), owner, acknowledged(dlqtest.Delivered(id), 3, offset))
	require.NoError(f.t, err)
	return m, ended
}

// requireDelivered checks that the message is RESOLVED by this owner, whose only delivery is at the offset.
func (f fixture) requireDelivered(id dlq.ID, owner dlq.Owner, offset int64) {
	f.t.Helper()
	m := f.message(id)
	require.Equal(f.t, []any{dlq.StatusResolved, dlq.ResolutionDelivered}, []any{m.Status, m.Resolution})
	require.Equal(f.t, owner, m.Owner)
	require.NotNil(f.t, m.TargetOffset)
	require.Equal(f.t, []any{int32(3), offset}, []any{*m.TargetPartition, *m.TargetOffset})
	require.Equal(f.t, []int64{offset}, f.deliveredBy(id, owner))
}

// deliveredBy are the offsets of the deliveries by an owner in the chain.
func (f fixture) deliveredBy(id dlq.ID, owner dlq.Owner) (offsets []int64) {
	f.t.Helper()
	hop := f.hops(id)[0]
	for i, a := range hop.Retries() {
		require.GreaterOrEqual(f.t, a.Number, 1)
		require.False(f.t, a.EndedAt.Before(a.StartedAt))
		if i == len(hop.Attempts) { // Retries adds the delivery that the message itself has
			a.TargetOffset = hop.TargetOffset
		}
		if a.Result == dlq.ResultDelivered && a.Owner == owner {
			offsets = append(offsets, *a.TargetOffset)
		}
	}
	return offsets
}

// late has the cases of deliveries that were acknowledged after the owner had lost its claim.
var late = map[string]func(*testing.T, fixture){
	"a delivered message is RESOLVED, whatever became of it meanwhile": func(t *testing.T, f fixture) {
		for name, lose := range map[string]func(id dlq.ID) dlq.Owner{
			"released": f.lose,
			"refused": func(id dlq.ID) dlq.Owner {
				owner := f.claim(id)
				_, _, err := f.Finalize(t.Context(), owner, dlqtest.Outcome(id, dlq.ResultRejected))
				require.NoError(t, err)
				return owner
			},
			"exhausted": func(id dlq.ID) (owner dlq.Owner) {
				for range dlq.DefaultMaxRetries {
					owner = f.lose(id)
				}
				require.Equal(t, dlq.ResolutionExhausted, f.message(id).Resolution)
				return owner
			},
			"revived": func(id dlq.ID) (owner dlq.Owner) {
				for range dlq.DefaultMaxRetries {
					owner = f.lose(id)
				}
				_, err := f.Revive(t.Context(), nil, id)
				require.NoError(t, err)
				return owner
			},
			"retried in vain": func(id dlq.ID) dlq.Owner {
				owner := f.lose(id)
				f.retry(id, dlq.ResultFailed)
				return owner
			},
			"given up": func(id dlq.ID) dlq.Owner {
				owner := f.lose(id)
				_, err := f.MarkDead(t.Context(), nil, id)
				require.NoError(t, err)
				return owner
			},
		} {
			id := f.store(dlqtest.Arrival())[0].ID
			owner := lose(id)
			before := f.detail(id)
			m, ended := f.acknowledge(owner, id, 7)
			require.True(t, ended, name)
			require.Equal(t, f.message(id), m, name)
			f.requireDelivered(id, owner, 7)
			attempts := f.detail(id).Attempts
			require.Equal(t, before.Attempts, attempts[:len(before.Attempts)], name)
			require.Len(t, attempts, len(before.Attempts)+1, name)
			require.Equal(t, before.RetryCount, m.RetryCount, name)

			again, ended := f.acknowledge(owner, id, 7)
			require.False(t, ended, "it is recorded once")
			require.Equal(t, m, again, name)
			require.Equal(t, attempts, f.detail(id).Attempts, name)
		}
		require.Empty(t, f.unpublished(), "none is exhausted")
	},

	"a late delivery finds its target also when other dead-letter topics have the same": func(t *testing.T, f fixture) {
		target := dlq.Acknowledgement{Topic: "orders", TopicID: dlq.NewID(), Partition: 3, Offset: 7}
		for _, dlqTopic := range []string{"orders.dlq", "orders.late.dlq"} {
			id := f.store(dlqtest.Arrival(func(a *dlq.Arrival) { a.DLQTopic = dlqTopic }))[0].ID
			owner := f.lose(id)
			outcome := dlqtest.Delivered(id)
			outcome.Acknowledgement = &target
			_, ended, err := f.Finalize(t.Context(), owner, outcome)
			require.NoError(t, err, dlqTopic)
			require.True(t, ended, dlqTopic)
			verdicts, err := f.Verdicts(t.Context(), []dlq.ID{id})
			require.NoError(t, err)
			require.Equal(t, "orders", verdicts[id].Target, dlqTopic)
		}
	},

	"a message that an earlier retry has delivered is RESOLVED when the present one fails": func(t *testing.T, f fixture) {
		finalize := func(result dlq.Result) func(dlq.ID, dlq.Owner) {
			return func(id dlq.ID, owner dlq.Owner) {
				_, ended, err := f.Finalize(t.Context(), owner, dlqtest.Outcome(id, result))
				require.NoError(t, err)
				require.True(t, ended)
			}
		}
		for name, test := range map[string]struct {
			end      func(id dlq.ID, owner dlq.Owner)
			attempts []dlq.Result
		}{
			"failed":   {finalize(dlq.ResultFailed), []dlq.Result{dlq.ResultFailed, dlq.ResultDelivered, dlq.ResultFailed}},
			"rejected": {finalize(dlq.ResultRejected), []dlq.Result{dlq.ResultFailed, dlq.ResultDelivered, dlq.ResultRejected}},
			"released": {finalize(dlq.ResultReleased), []dlq.Result{dlq.ResultFailed, dlq.ResultDelivered}},
			"swept": {func(_ dlq.ID, owner dlq.Owner) {
				_, err := f.Release(t.Context(), owner, "terminated")
				require.NoError(t, err)
			}, []dlq.Result{dlq.ResultFailed, dlq.ResultDelivered, dlq.ResultFailed}},
			"marked dead": {func(id dlq.ID, _ dlq.Owner) {
				_, err := f.MarkDead(t.Context(), nil, id)
				require.NoError(t, err)
			}, []dlq.Result{dlq.ResultFailed, dlq.ResultDelivered}},
			"marked dead with others": {func(dlq.ID, dlq.Owner) { f.act(dlq.KindDead, orders) }, []dlq.Result{dlq.ResultFailed, dlq.ResultDelivered}},
		} {
			id := f.store(dlqtest.Arrival(dlqtest.Retries(0, 2)))[0].ID
			first := f.lose(id)
			second := f.claim(id)
			before := f.message(id)
			m, ended := f.acknowledge(first, id, 7)
			require.True(t, ended, name)
			require.Equal(t, before, m, "the second owner has it")
			_, ended = f.acknowledge(first, id, 7)
			require.False(t, ended, "it is recorded once")
			_, err := f.Claimed(t.Context(), id, second)
			require.NoError(t, err, name)

			test.end(id, second)
			f.requireDelivered(id, first, 7)
			var results []dlq.Result
			for _, a := range f.detail(id).Attempts {
				results = append(results, a.Result)
				require.Equal(t, a.Result == dlq.ResultDelivered || len(results) == 1, a.Owner == first, name)
			}
			require.Equal(t, test.attempts, results, name)
		}
		require.Empty(t, f.unpublished(), "none is exhausted")
	},

	"a message that two retries have delivered shows both": func(t *testing.T, f fixture) {
		id := f.store(dlqtest.Arrival())[0].ID
		first := f.lose(id)
		second := f.claim(id)
		f.acknowledge(first, id, 7)
		m, ended := f.acknowledge(second, id, 8)
		require.True(t, ended)
		require.Equal(t, []any{dlq.StatusResolved, second, int64(8)}, []any{m.Status, m.Owner, *m.TargetOffset})
		require.Equal(t, [][]int64{{7}, {8}}, [][]int64{f.deliveredBy(id, first), f.deliveredBy(id, second)})

		id = f.store(dlqtest.Arrival())[0].ID
		first = f.lose(id)
		second = f.claim(id)
		delivered, _ := f.acknowledge(second, id, 8)
		m, ended = f.acknowledge(first, id, 7)
		require.True(t, ended)
		require.Equal(t, delivered, m)
		require.Equal(t, [][]int64{{7}, {8}}, [][]int64{f.deliveredBy(id, first), f.deliveredBy(id, second)})
	},

	"a message that was replaced stays replaced when an earlier retry turns out to have delivered it": func(t *testing.T, f fixture) {
		id := f.store(dlqtest.Arrival())[0].ID
		owner := f.lose(id)
		_, err := f.Replace(t.Context(), nil, id, dlqtest.Arrival())
		require.NoError(t, err)
		replaced := f.message(id)
		m, ended := f.acknowledge(owner, id, 7)
		require.True(t, ended)
		require.Equal(t, replaced, m)
		require.Equal(t, []int64{7}, f.deliveredBy(id, owner))
	},

	"a fenced attempt records what it has delivered, and each message is counted once": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(6)...)
		lane := dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0)
		older := f.openLane(lane)
		page := f.claimPage(older)
		newer := f.openLane(lane)
		require.Equal(t, dlq.JobCounts{Retried: 1, Failed: 1, Skipped: 1}, f.finalizePage(newer, []dlq.PageOutcome{
			outcome(page[0], dlq.ResultDelivered), outcome(page[1], dlq.ResultFailed), outcome(page[2], dlq.ResultSkipped)}))
		outcomes := dlqtest.Outcomes(page, dlq.ResultDelivered)
		outcomes[5] = outcome(page[5], dlq.ResultFailed)
		for i := range outcomes[:5] {
			outcomes[i].Outcome = acknowledged(outcomes[i].Outcome, 3, int64(i))
		}
		for range 2 {
			f.requireFenced(older, outcomes)
			require.Equal(t, dlq.JobCounts{Retried: 3, Failed: 1, Skipped: 1}, f.job(lane.Job).Counts)
			require.EqualValues(t, 1, f.retrying(), "the failure is not the older attempt's to record")
		}
		for i := 1; i < 5; i++ {
			f.requireDelivered(page[i].ID, lane.Owner, int64(i))
		}
		require.Equal(t, page[5:], f.claimed(newer))
		f.finalizePage(newer, dlqtest.Outcomes(page, dlq.ResultFailed))
		ended := f.end(lane.Job, dlq.JobCompleted)
		require.Equal(t, dlq.JobCounts{Retried: 3, Failed: 2, Skipped: 1}, ended.Counts)
		require.Equal(t, ended.Matched, ended.Counts.Done())
	},

	"a message that was delivered before a pause is not sent again": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(5)...)
		lane := dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0)
		older := f.openLane(lane)
		page := f.claimPage(older)
		f.pause(lane.Job, "the connection to Temporal is lost")
		require.EqualValues(t, 5, f.job(lane.Job).Waiting)
		f.requireFenced(older, dlqtest.Outcomes(page[:3], dlq.ResultDelivered))
		require.Equal(t, dlq.JobCounts{Retried: 3}, f.job(lane.Job).Counts)
		f.resume(lane.Job)
		require.Equal(t, envelopeIDs(page[3:]), f.drain(f.openLane(lane)))
		ended := f.end(lane.Job, dlq.JobCompleted)
		require.Equal(t, dlq.JobCounts{Retried: 5}, ended.Counts)
	},

	"a job that has ended counts no delivery": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(3)...)
		lane := dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0)
		older := f.openLane(lane)
		page := f.claimPage(older)
		ended := f.end(lane.Job, dlq.JobCancelled)
		require.Equal(t, dlq.JobCounts{Skipped: 3}, ended.Counts)
		other := f.claim(page[1].ID)
		outcomes := dlqtest.Outcomes(page[:2], dlq.ResultDelivered)
		for i := range outcomes {
			outcomes[i].Outcome = acknowledged(outcomes[i].Outcome, 3, 7)
		}
		f.requireFenced(older, outcomes)
		require.Equal(t, ended.Counts, f.job(lane.Job).Counts)
		f.requireDelivered(page[0].ID, lane.Owner, 7)
		require.Equal(t, dlq.StatusRetrying, f.message(page[1].ID).Status)
		_, _, err := f.Finalize(t.Context(), other, dlqtest.Failed(page[1].ID))
		require.NoError(t, err)
		f.requireDelivered(page[1].ID, lane.Owner, 7)
		f.store(cameBackFrom(page[1].ID))
		require.EqualValues(t, 1, f.job(lane.Job).CameBack)
	},

	"a lane that loses messages to an operator counts those that it has delivered": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(3)...)
		lane := f.openLane(dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0))
		page := f.claimPage(lane)
		owner := page[0]
		_, err := f.MarkDead(t.Context(), nil, owner.ID)
		require.NoError(t, err)
		require.Equal(t, dlq.JobCounts{Retried: 3}, f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultDelivered)))
		for _, m := range stored {
			require.Equal(t, dlq.StatusResolved, f.message(m.ID).Status)
		}
	},

	"a message that was delivered meanwhile blocks no later message of its key": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(2, dlqtest.Key("k"), dlqtest.Retries(1, 3))...)
		owner := f.lose(stored[0].ID)
		lane := f.openLane(dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0))
		page := f.claimPage(lane)
		require.Len(t, page, 2)
		f.acknowledge(owner, stored[0].ID, 7)
		f.finalizePage(lane, dlqtest.Outcomes(page[:1], dlq.ResultFailed))
		f.requireDelivered(stored[0].ID, owner, 7)
		require.Equal(t, page[1:], f.claimed(lane))
	},

	"a bulk retry that fails to send a message which was delivered has not failed it": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(4, dlqtest.Retries(1, 3))...)
		var owners []dlq.Owner
		for _, m := range stored {
			owners = append(owners, f.lose(m.ID))
		}
		lane := f.openLane(dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1)), 0))
		page := f.claimPage(lane)
		require.Len(t, page, 4)
		for i, m := range stored {
			f.acknowledge(owners[i], m.ID, int64(i))
		}
		require.EqualValues(t, 4, f.retrying())
		results := []dlq.Result{dlq.ResultFailed, dlq.ResultRejected, dlq.ResultSkipped, dlq.ResultWaiting}
		var outcomes []dlq.PageOutcome
		for i, result := range results {
			outcomes = append(outcomes, outcome(page[i], result))
		}
		f.finalizePage(lane, outcomes)
		for i, m := range stored {
			f.requireDelivered(m.ID, owners[i], int64(i))
		}
		f.drain(lane)
		ended := f.end(lane.Job, dlq.JobCompleted)
		require.Zero(t, ended.Counts.Retried+ended.Counts.Failed+ended.Counts.Dead)
		require.Equal(t, ended.Matched, ended.Counts.Done())
		require.Empty(t, f.unpublished())
		require.True(t, slices.Equal(ids(stored), envelopeIDs(page)))
	},
}
