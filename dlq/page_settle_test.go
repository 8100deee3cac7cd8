package dlq_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

// endOf is the outcome of the candidate and the end of its claim.
func endOf(m dlq.Candidate, result dlq.Result, status dlq.Status) (dlq.PageOutcome, *dlq.EndedClaim) {
	return dlq.PageOutcome{Outcome: dlq.Outcome{ID: m.ID, Result: result}}, &dlq.EndedClaim{Candidate: m, Status: status}
}

// settlement collects outcomes and ended claims.
type settlement struct {
	outcomes []dlq.PageOutcome
	ended    map[dlq.ID]*dlq.EndedClaim
}

func (s *settlement) add(m dlq.Candidate, result dlq.Result, status dlq.Status) *dlq.PageOutcome {
	o, e := endOf(m, result, status)
	if s.ended == nil {
		s.ended = map[dlq.ID]*dlq.EndedClaim{}
	}
	s.ended[m.ID] = e
	s.outcomes = append(s.outcomes, o)
	return &s.outcomes[len(s.outcomes)-1]
}

func (s *settlement) wait(m dlq.Candidate, wait dlq.Wait) *dlq.PageOutcome {
	o := s.add(m, dlq.ResultWaiting, dlq.StatusPending)
	o.Wait = wait
	return o
}

func TestEachOutcomeIsCountedByTheStatusOfItsMessage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		result    dlq.Result
		status    dlq.Status
		counts    dlq.JobCounts
		isFailed  bool
		blocksKey bool
	}{
		{dlq.ResultDelivered, dlq.StatusResolved, dlq.JobCounts{Retried: 1}, false, false},
		{dlq.ResultFailed, dlq.StatusPending, dlq.JobCounts{Failed: 1}, true, true},
		{dlq.ResultFailed, dlq.StatusDead, dlq.JobCounts{Dead: 1}, true, true},
		{dlq.ResultFailed, dlq.StatusResolved, dlq.JobCounts{}, true, false}, // another owner has delivered the message
		{dlq.ResultRejected, dlq.StatusDead, dlq.JobCounts{Dead: 1}, true, true},
		{dlq.ResultRejected, dlq.StatusResolved, dlq.JobCounts{}, true, false},
		{dlq.ResultSkipped, dlq.StatusPending, dlq.JobCounts{Skipped: 1}, false, false},
		{dlq.ResultReleased, dlq.StatusPending, dlq.JobCounts{Skipped: 1}, false, false},
		{dlq.ResultWaiting, dlq.StatusPending, dlq.JobCounts{}, false, false},
	} {
		s := settlement{}
		s.add(candidate(1, 7), test.result, test.status)
		got := dlq.Settle(s.outcomes, s.ended)
		require.Equal(t, test.counts, got.Counts, "%s %s", test.result, test.status)
		require.Equal(t, test.isFailed, len(got.Failed) == 1, "%s %s", test.result, test.status)
		require.Equal(t, test.blocksKey, len(got.FailedKeys) == 1, "%s %s", test.result, test.status)
		require.Equal(t, test.result == dlq.ResultWaiting, len(got.Wait) == 1, "%s %s", test.result, test.status)
	}
}

func TestAFailedMessageBlocksItsKeyForItsTarget(t *testing.T) {
	t.Parallel()
	s := settlement{}
	s.add(candidate(1, 7), dlq.ResultFailed, dlq.StatusPending).Error = "too large"
	got := dlq.Settle(s.outcomes, s.ended)
	require.Equal(t, []dlq.PageOutcome{s.outcomes[0]}, got.Failed)
	require.Equal(t, []dlq.Candidate{candidate(1, 7)}, got.FailedKeys)
}

func TestAMessageWaitsForItsTargetOrForItsKey(t *testing.T) {
	t.Parallel()
	s := settlement{}
	o := s.wait(candidate(1, 7), dlq.Wait{Target: partition(2).Target, Tries: 3, For: time.Minute})
	o.Error, o.Category = "no leader", dlq.CategoryTransient
	s.wait(candidate(2, 8), dlq.Wait{Target: queueOf(8).Target, OfKey: true})
	got := dlq.Settle(s.outcomes, s.ended)
	require.Equal(t, map[int64]dlq.QueueID{1: *partition(2), 2: *queueOf(8)}, waits(got.Wait))
	require.Equal(t, []dlq.Queue{
		{QueueID: *queueOf(8)},
		{QueueID: *partition(2), Tries: 3, Due: time.Minute, Reason: "no leader", Category: dlq.CategoryTransient},
	}, got.Queues)
	require.False(t, got.Queues[0].IsClosed())
	require.True(t, got.Queues[1].IsClosed())
}

func TestOnlyTheQueueOfATriedTargetIsClosed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		queue    *dlq.QueueID
		tries    int
		isClosed bool
	}{{partition(1), 1, true}, {partition(1), 0, false}, {partition(dlq.AnyPartition), 2, true}, {queueOf(7), 1, false}, {queueOf(7), 0, false}} {
		state := dlq.Queue{QueueID: *test.queue, Tries: test.tries}
		require.Equal(t, test.isClosed, state.IsClosed(), "%+v", test)
	}
}

func TestQueuesComeOnceInTheSameOrderForAllLanesWithTheMostTries(t *testing.T) {
	t.Parallel()
	s := settlement{}
	bill := candidate(9, 7)
	bill.Target, bill.Key = "bills", dlq.TargetKey(7, "bills")
	s.wait(candidate(1, 7), dlq.Wait{Target: partition(2).Target})
	s.wait(candidate(2, 8), dlq.Wait{Target: queueOf(8).Target, OfKey: true, Tries: 1})
	s.wait(candidate(3, 9), dlq.Wait{Target: partition(1).Target})
	s.wait(candidate(4, 7), dlq.Wait{Target: partition(2).Target, Tries: 4})
	s.wait(candidate(5, 8), dlq.Wait{Target: queueOf(8).Target, OfKey: true})
	s.wait(candidate(6, 7), dlq.Wait{Target: partition(2).Target, Tries: 2})
	s.wait(candidate(7, 7), dlq.Wait{Target: partition(dlq.AnyPartition).Target})
	s.wait(bill, dlq.Wait{Target: dlq.Target{Topic: "bills", Partition: 3}})
	got := dlq.Settle(s.outcomes, s.ended)
	require.Len(t, got.Wait, len(s.outcomes))
	require.Equal(t, []dlq.Queue{
		{QueueID: dlq.QueueID{Target: dlq.Target{Topic: "bills", Partition: 3}, Key: dlq.NoKey}},
		{QueueID: *partition(dlq.AnyPartition)},
		{QueueID: *queueOf(8), Tries: 1},
		{QueueID: *partition(1)},
		{QueueID: *partition(2), Tries: 4},
	}, got.Queues)
}

func TestATargetThatAnsweredIsOpenedUnlessItRefusedAMessageOfThePage(t *testing.T) {
	t.Parallel()
	whole := dlq.Target{Topic: "orders", Partition: dlq.AnyPartition}
	s := settlement{}
	s.add(candidate(1, 7), dlq.ResultDelivered, dlq.StatusResolved).Target = partition(1).Target
	s.add(candidate(2, 8), dlq.ResultDelivered, dlq.StatusResolved).Target = partition(1).Target
	s.add(candidate(3, 9), dlq.ResultRejected, dlq.StatusDead).Target = partition(2).Target
	s.add(candidate(4, 10), dlq.ResultFailed, dlq.StatusPending)
	require.Equal(t, []dlq.Target{partition(1).Target, whole, partition(2).Target}, dlq.Settle(s.outcomes, s.ended).Opened)

	s.wait(candidate(5, 11), dlq.Wait{Target: partition(2).Target, Tries: 1})
	s.wait(candidate(6, 12), dlq.Wait{Target: partition(1).Target, OfKey: true, Tries: 1})
	require.Equal(t, []dlq.Target{partition(1).Target, whole}, dlq.Settle(s.outcomes, s.ended).Opened, "a message that waits for its key says nothing")

	s.wait(candidate(7, 13), dlq.Wait{Target: whole})
	require.Equal(t, []dlq.Target{partition(1).Target}, dlq.Settle(s.outcomes, s.ended).Opened)
}

func TestOutcomesOfLostClaimsChangeNoMessages(t *testing.T) {
	t.Parallel()
	s := settlement{}
	s.add(candidate(1, 7), dlq.ResultDelivered, dlq.StatusResolved)
	s.add(candidate(2, 7), dlq.ResultFailed, dlq.StatusPending)
	s.add(candidate(3, 7), dlq.ResultRejected, dlq.StatusDead)
	s.add(candidate(4, 7), dlq.ResultSkipped, dlq.StatusPending)
	s.wait(candidate(5, 7), dlq.Wait{Target: partition(1).Target, Tries: 1})
	require.Equal(t, dlq.Settlement{}, dlq.Settle(s.outcomes, nil))
	require.Equal(t, dlq.Settlement{}, dlq.Settle(nil, nil))
}

func TestALostDeliveryOpensItsTarget(t *testing.T) {
	t.Parallel()
	s := settlement{}
	s.add(candidate(1, 7), dlq.ResultDelivered, dlq.StatusResolved).Target = partition(1).Target
	got := dlq.Settle(s.outcomes, nil)
	require.Equal(t, dlq.Settlement{Opened: []dlq.Target{partition(1).Target, partition(dlq.AnyPartition).Target}}, got)
}
