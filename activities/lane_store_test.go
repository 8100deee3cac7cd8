package activities_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"dlqmanager/activities"
	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
)

// blockedStore is a store in which the lock of another transaction blocks finalizes.
type blockedStore struct {
	*postgres.Store
	blocked atomic.Int32
}

func (s *blockedStore) FinalizePage(ctx context.Context, lane dlq.Lane, outcomes []dlq.PageOutcome) (dlq.PageResult, error) {
	if s.blocked.Add(-1) >= 0 {
		return dlq.PageResult{}, dlq.ErrBlocked
	}
	return s.Store.FinalizePage(ctx, lane, outcomes)
}

func (s *blockedStore) NextPage(ctx context.Context, lane dlq.Lane, outcomes []dlq.PageOutcome, scan bool) (dlq.LaneClaim, dlq.PageResult, error) {
	if len(outcomes) > 0 && s.blocked.Add(-1) >= 0 {
		return dlq.LaneClaim{}, dlq.PageResult{}, dlq.ErrBlocked
	}
	return s.Store.NextPage(ctx, lane, outcomes, scan)
}

// deliveredAt is a delivered message as a heartbeat has it.
func deliveredAt(id dlq.ID, retryCount int, at *dlq.Acknowledgement) dlq.PageOutcome {
	o := dlq.PageOutcome{Outcome: dlqtest.Delivered(id), RetryCount: retryCount}
	o.Acknowledgement = at
	return o
}

func TestABlockedFinalizeIsRepeatedAndThePageIsNotSentAgain(t *testing.T) {
	t.Parallel()
	l := newLaneTest(t, dlq.OrderKey, nil, message("orders", "a", "a1"), message("orders", "b", "b1"))
	store := &blockedStore{Store: l.store}
	store.blocked.Store(4) // for longer than a heartbeat
	env := l.environment(t, store, l.target)
	var acknowledged []dlq.PageOutcome
	env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
		var report activities.LaneReport
		if _ = details.Get(&report); len(report.Acknowledged) > 0 {
			acknowledged = report.Acknowledged
		}
	})
	value, err := env.ExecuteActivity("RunLane", activities.LaneInput{Bulk: l.lane.Job})
	require.NoError(t, err)
	require.Equal(t, []dlq.PageOutcome{
		deliveredAt(l.ids["a1"], 1, &dlq.Acknowledgement{Offset: 1}), deliveredAt(l.ids["b1"], 1, &dlq.Acknowledgement{Offset: 2}),
	}, acknowledged, "the next attempt would know")
	var result activities.LaneResult
	require.NoError(t, value.Get(&result))
	require.Equal(t, activities.LaneDone, result.End)
	require.Equal(t, []string{"a1", "b1"}, l.target.asked)
	require.Equal(t, dlq.JobCounts{Retried: 2}, l.counts(t))
}

func TestMessagesAcknowledgedInAnEarlierAttemptAreNotSentAgain(t *testing.T) {
	t.Parallel()
	l := newLaneTest(t, dlq.OrderKey, nil, message("orders", "a", "a1"), message("orders", "b", "b1"))
	claim := l.claimPage(t)
	env := l.environment(t, l.store, l.target)
	env.SetHeartbeatDetails(activities.LaneReport{Acknowledged: []dlq.PageOutcome{
		deliveredAt(claim.Page[0].ID, claim.Page[0].RetryCount, &dlq.Acknowledgement{Partition: 3, Offset: 17}),
		deliveredAt(claim.Page[1].ID, 7, nil), deliveredAt(dlq.NewID(), 0, nil),
	}})
	_, err := env.ExecuteActivity("RunLane", activities.LaneInput{Bulk: l.lane.Job})
	require.NoError(t, err)
	require.Equal(t, []string{"b1"}, l.target.asked, "what was acknowledged belongs to another claim")
	require.Equal(t, dlq.JobCounts{Retried: 2}, l.counts(t))
	for name, want := range map[string][]int64{"a1": {3, 17}, "b1": {0, 1}} {
		m, err := l.store.Message(t.Context(), l.ids[name])
		require.NoError(t, err)
		require.Equal(t, want, []int64{int64(*m.TargetPartition), *m.TargetOffset})
	}
}

func TestAnEntryOfAHeartbeatThatIsOddNeverMakesAnAcknowledgedMessageFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		entry string
		sent  []string
	}{
		"without a result": {`{"id": "%s", "retry_count": 1}`, nil},
		"unknown result":   {`{"id": "%s", "retry_count": 1, "result": "sent"}`, nil},
		"undecodable":      {`{"id": "%s", "retry_count": 1, "result": 7}`, []string{"a1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLaneTest(t, dlq.OrderKey, nil, message("orders", "a", "a1"))
			l.claimPage(t)
			env := l.environment(t, l.store, l.target)
			env.SetHeartbeatDetails(json.RawMessage(`{"acknowledged": [` + fmt.Sprintf(c.entry, l.ids["a1"]) + `]}`))
			_, err := env.ExecuteActivity("RunLane", activities.LaneInput{Bulk: l.lane.Job})
			require.NoError(t, err)
			require.Equal(t, c.sent, l.target.asked)
			require.Equal(t, dlq.JobCounts{Retried: 1}, l.counts(t))
		})
	}
}

// unavailableStore is a store whose database is unavailable.
type unavailableStore struct{ *postgres.Store }

func (unavailableStore) OpenLane(context.Context, dlq.ID, int, dlq.LaneAttempt) (dlq.Lane, error) {
	return dlq.Lane{}, dlq.ErrUnavailable
}

// panickingStore panics when it is to record the first page.
type panickingStore struct {
	*postgres.Store
	hasPanicked bool
}

func (s *panickingStore) NextPage(ctx context.Context, lane dlq.Lane, outcomes []dlq.PageOutcome, scan bool) (dlq.LaneClaim, dlq.PageResult, error) {
	if len(outcomes) > 0 && !s.hasPanicked {
		s.hasPanicked = true
		panic("a bug in the store")
	}
	return s.Store.NextPage(ctx, lane, outcomes, scan)
}

func TestAPageInHandIsNotSentAgainAfterAPanic(t *testing.T) {
	t.Parallel()
	l := newLaneTest(t, dlq.OrderKey, nil, message("orders", "a", "a1"), message("orders", "b", "b1"))
	l.failsOnce(t, &panickingStore{Store: l.store})
	require.Equal(t, []string{"a1", "b1"}, l.target.asked)
}

// failsOnce runs an attempt at the lane that fails, and the next attempt, which has its last heartbeat.
func (l *laneTest) failsOnce(t *testing.T, store activities.JobStore) {
	t.Helper()
	var last activities.LaneReport
	for attempt := range 2 {
		env := l.environment(t, store, l.target)
		env.SetHeartbeatDetails(last)
		env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
			last = activities.LaneReport{}
			_ = details.Get(&last)
		})
		_, err := env.ExecuteActivity("RunLane", activities.LaneInput{Bulk: l.lane.Job})
		require.Equal(t, attempt == 0, err != nil, "%v", err)
	}
}

func TestAcknowledgedMessagesSurviveAnAttemptThatFails(t *testing.T) {
	t.Parallel()
	l := newLaneTest(t, dlq.OrderKey, nil, message("orders", "a", "a1"))
	env := l.environment(t, unavailableStore{l.store}, l.target)
	known := []dlq.PageOutcome{deliveredAt(l.ids["a1"], 1, nil)}
	env.SetHeartbeatDetails(activities.LaneReport{Acknowledged: known})
	var last activities.LaneReport
	env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
		last = activities.LaneReport{}
		_ = details.Get(&last)
	})
	_, err := env.ExecuteActivity("RunLane", activities.LaneInput{Bulk: l.lane.Job})
	require.Error(t, err)
	require.Equal(t, known, last.Acknowledged)
}

// lossyStore is a store whose answers to the first steps with outcomes are lost.
type lossyStore struct {
	*postgres.Store
	isCommitted []bool // of each lost answer
}

func (s *lossyStore) lose(commit func() error) error {
	isCommitted := s.isCommitted[0]
	s.isCommitted = s.isCommitted[1:]
	if isCommitted {
		if err := commit(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: connection reset", dlq.ErrUnavailable)
}

func (s *lossyStore) NextPage(ctx context.Context, lane dlq.Lane, outcomes []dlq.PageOutcome, scan bool) (dlq.LaneClaim, dlq.PageResult, error) {
	if len(outcomes) > 0 && len(s.isCommitted) > 0 {
		return dlq.LaneClaim{}, dlq.PageResult{}, s.lose(func() error {
			_, _, err := s.Store.NextPage(ctx, lane, outcomes, scan)
			return err
		})
	}
	return s.Store.NextPage(ctx, lane, outcomes, scan)
}

func (s *lossyStore) FinalizePage(ctx context.Context, lane dlq.Lane, outcomes []dlq.PageOutcome) (dlq.PageResult, error) {
	if len(s.isCommitted) > 0 {
		return dlq.PageResult{}, s.lose(func() error {
			_, err := s.Store.FinalizePage(ctx, lane, outcomes)
			return err
		})
	}
	return s.Store.FinalizePage(ctx, lane, outcomes)
}

func TestAPageIsCountedOnceAlthoughTheAnswerOfTheDatabaseIsLost(t *testing.T) {
	t.Parallel()
	for name, isCommitted := range map[string][]bool{
		"the step is committed": {true}, "the step is undone": {false}, "the step is undone and the end of the page is committed": {false, true},
		"all are committed": {true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLaneTest(t, dlq.OrderKey, map[string][]error{"bad": {refuse(dlq.CategoryBadData)}}, message("orders", "a", "a1"), message("orders", "b", "bad"))
			env := l.environment(t, &lossyStore{l.store, isCommitted}, l.target)
			_, err := env.ExecuteActivity("RunLane", activities.LaneInput{Bulk: l.lane.Job})
			require.ErrorContains(t, err, "connection reset")
			require.Equal(t, map[string]float64{"delivered": 1, "rejected": 1}, l.counted(t))
			require.Equal(t, dlq.JobCounts{Retried: 1, Dead: 1}, l.counts(t))
		})
	}
}

// slowStore is a store in which unbounded scans exceed their timeout.
type slowStore struct {
	*postgres.Store
	asked []bool
}

func (s *slowStore) NextPage(ctx context.Context, lane dlq.Lane, outcomes []dlq.PageOutcome, scan bool) (dlq.LaneClaim, dlq.PageResult, error) {
	if s.asked = append(s.asked, lane.Bounded); !lane.Bounded {
		return dlq.LaneClaim{}, dlq.PageResult{}, fmt.Errorf("%w: %w", dlq.ErrUnavailable, context.DeadlineExceeded)
	}
	return s.Store.NextPage(ctx, lane, outcomes, scan)
}

func TestALaneWithFewMessagesInALargeScopeScansInParts(t *testing.T) {
	t.Parallel()
	l := newLaneTest(t, dlq.OrderKey, nil, message("orders", "a", "a1"))
	store := &slowStore{Store: l.store}
	l.failsOnce(t, store)
	require.Equal(t, []bool{false, true, true}, store.asked)
	require.Equal(t, dlq.JobCounts{Retried: 1}, l.counts(t))
}

// restoredStore is a store whose database is restored to the moment before its first finalize.
type restoredStore struct {
	*postgres.Store
	restored bool
}

func (s *restoredStore) FinalizePage(ctx context.Context, lane dlq.Lane, outcomes []dlq.PageOutcome) (dlq.PageResult, error) {
	if lane.Epoch == 1 {
		return dlq.PageResult{}, nil // these claims are not in the restored database
	}
	return s.Store.FinalizePage(ctx, lane, outcomes)
}

func (s *restoredStore) NextPage(ctx context.Context, lane dlq.Lane, outcomes []dlq.PageOutcome, scan bool) (dlq.LaneClaim, dlq.PageResult, error) {
	if len(outcomes) > 0 && !s.restored {
		s.restored = true
		claim, _, err := s.Store.NextPage(ctx, lane, nil, scan)
		return claim, dlq.PageResult{Ended: len(outcomes)}, err
	}
	return s.Store.NextPage(ctx, lane, outcomes, scan)
}

func TestAPageThatARestoreBroughtBackIsSentBeforeLaterMessages(t *testing.T) {
	t.Parallel()
	var messages []dlq.Arrival
	var names []string
	for i := range dlq.PageSize + 1 {
		names = append(names, fmt.Sprint(i))
		messages = append(messages, message("orders", "a", names[i]))
	}
	l := newLaneTest(t, dlq.OrderKey, nil, messages...)
	l.failsOnce(t, &restoredStore{Store: l.store})
	require.Equal(t, slices.Concat(names[:dlq.PageSize], names), l.target.asked)
	require.Equal(t, dlq.JobCounts{Retried: int64(len(messages))}, l.counts(t))
}

// lateStore is a store whose first claim commits after its caller's timeout.
type lateStore struct {
	*postgres.Store
	late func()
}

func (s *lateStore) NextPage(ctx context.Context, lane dlq.Lane, outcomes []dlq.PageOutcome, scan bool) (dlq.LaneClaim, dlq.PageResult, error) {
	if s.late == nil {
		s.late = func() { _, _, _ = s.Store.NextPage(context.WithoutCancel(ctx), lane, outcomes, scan) }
		return dlq.LaneClaim{}, dlq.PageResult{}, fmt.Errorf("%w: %w", dlq.ErrUnavailable, context.DeadlineExceeded)
	}
	return s.Store.NextPage(ctx, lane, outcomes, scan)
}

func (s *lateStore) ClaimedPage(ctx context.Context, lane dlq.Lane, bytes int64) (dlq.LaneClaim, error) {
	page, err := s.Store.ClaimedPage(ctx, lane, bytes)
	if s.late != nil {
		s.late()
	}
	return page, err
}

func TestAClaimThatCommitsTooLateIsNotLost(t *testing.T) {
	t.Parallel()
	l := newLaneTest(t, dlq.OrderKey, nil, message("orders", "a", "a1"), message("orders", "a", "a2"))
	l.failsOnce(t, &lateStore{Store: l.store})
	require.Equal(t, []string{"a1", "a2"}, l.target.asked)
	require.Equal(t, dlq.JobCounts{Retried: 2}, l.counts(t))
}

func TestAPageLeftByACrashIsReleasedWhenTheJobStops(t *testing.T) {
	t.Parallel()
	l := newLaneTest(t, dlq.OrderKey, nil, message("orders", "a", "a1"))
	l.claimPage(t)
	_, err := l.store.StopJob(t.Context(), nil, l.lane.Job, dlq.JobPausing, "")
	require.NoError(t, err)
	require.Equal(t, activities.LaneClosed, l.run(t).End)
	require.Empty(t, l.target.asked)
	l.requireUnchanged(t, "a1")
}

// vanishing is a store in which another client ends a large message before it is read.
type vanishing struct {
	*postgres.Store
	gone bool
}

func (s *vanishing) ClaimedPage(ctx context.Context, lane dlq.Lane, bytes int64) (dlq.LaneClaim, error) {
	if bytes > dlq.PageBytes && !s.gone {
		s.gone = true
		claim, err := s.Store.ClaimedPage(ctx, lane, bytes)
		if err == nil {
			_, err = s.MarkDead(ctx, nil, claim.Page[0].ID)
		}
		return dlq.LaneClaim{}, err
	}
	return s.Store.ClaimedPage(ctx, lane, bytes)
}

func TestALaneContinuesAfterALargeMessageThatAnotherClientHasEnded(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", dlq.PageBytes+1)
	l := newLaneTest(t, dlq.OrderKey, nil, message("orders", "a", large), message("orders", "b", "b1"), message("orders", "c", "c1"))
	store := &vanishing{Store: l.store}
	value, err := l.environment(t, store, l.target).ExecuteActivity("RunLane", activities.LaneInput{Bulk: l.lane.Job})
	require.NoError(t, err)
	var result activities.LaneResult
	require.NoError(t, value.Get(&result))
	require.True(t, store.gone)
	require.Equal(t, activities.LaneDone, result.End)
	require.Equal(t, []string{"b1", "c1"}, l.target.asked)
}

func TestALargeMessageIsSent(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 20*dlq.PageBytes)
	l := newLaneTest(t, dlq.OrderKey, nil, message("orders", "a", large), message("orders", "b", "b1"))
	require.Equal(t, activities.LaneDone, l.run(t).End)
	require.Equal(t, []string{large, "b1"}, l.target.asked)
}

// blockedRead is a store in which a lock blocks the first reading of a large message.
type blockedRead struct {
	*postgres.Store
	asked []int64
}

func (s *blockedRead) ClaimedPage(ctx context.Context, lane dlq.Lane, bytes int64) (dlq.LaneClaim, error) {
	if s.asked = append(s.asked, bytes); len(s.asked) == 2 {
		return dlq.LaneClaim{}, dlq.ErrBlocked
	}
	return s.Store.ClaimedPage(ctx, lane, bytes)
}

func TestALargeMessageIsSentAfterItsReadingWasBlocked(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 2*dlq.PageBytes)
	l := newLaneTest(t, dlq.OrderKey, nil, message("orders", "a", large))
	store := &blockedRead{Store: l.store}
	_, err := l.environment(t, store, l.target).ExecuteActivity("RunLane", activities.LaneInput{Bulk: l.lane.Job})
	require.NoError(t, err)
	require.Len(t, store.asked, 3)
	require.Equal(t, store.asked[1], store.asked[2])
	require.Equal(t, []string{large}, l.target.asked)
}

// slowFinalize is a store whose finalizes exceed their timeout.
type slowFinalize struct{ *postgres.Store }

func (slowFinalize) FinalizePage(context.Context, dlq.Lane, []dlq.PageOutcome) (dlq.PageResult, error) {
	return dlq.PageResult{}, context.DeadlineExceeded
}

func (s slowFinalize) NextPage(ctx context.Context, lane dlq.Lane, outcomes []dlq.PageOutcome, scan bool) (dlq.LaneClaim, dlq.PageResult, error) {
	if len(outcomes) > 0 {
		return dlq.LaneClaim{}, dlq.PageResult{}, context.DeadlineExceeded
	}
	return s.Store.NextPage(ctx, lane, outcomes, scan)
}

func TestAPageThatCouldNotBeFinalizedIsNotSentAgainByTheSameAttempt(t *testing.T) {
	t.Parallel()
	l := newLaneTest(t, dlq.OrderKey, nil, message("orders", "a", "a1"))
	_, err := l.environment(t, slowFinalize{l.store}, l.target).ExecuteActivity("RunLane", activities.LaneInput{Bulk: l.lane.Job})
	require.Error(t, err)
	require.Equal(t, []string{"a1"}, l.target.asked)
}

// claimPage claims the first page as an attempt at the lane that is killed afterwards.
func (l *laneTest) claimPage(t *testing.T) dlq.LaneClaim {
	t.Helper()
	lane, err := l.store.OpenLane(t.Context(), l.lane.Job, 0, dlq.LaneAttempt{})
	require.NoError(t, err)
	claim, _, err := l.store.NextPage(t.Context(), lane, nil, true)
	require.NoError(t, err)
	return claim
}
