package workflows_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

func (s *system) startAll(t *testing.T, change ...func(*dlq.BulkSpec)) workflows.Execution {
	t.Helper()
	spec := dlq.BulkSpec{Topic: s.topic()}
	for _, c := range change {
		c(&spec)
	}
	execution, err := s.client.StartRetryAll(t.Context(), workflows.RetryAllInput{Spec: spec, Lanes: 4})
	require.NoError(t, err)
	return execution
}

// state is where the job stands, empty before there is one.
func (s *system) state(e workflows.Execution) dlq.BulkState {
	id, err := dlq.ParseID(e.RunID)
	if err != nil {
		return ""
	}
	bulk, err := s.store.Bulk(context.Background(), id)
	if err != nil {
		return ""
	}
	return bulk.State
}

func (s *system) bulk(t *testing.T, e workflows.Execution) dlq.BulkRetry {
	t.Helper()
	id, err := dlq.ParseID(e.RunID)
	require.NoError(t, err)
	bulk, err := s.store.Bulk(t.Context(), id)
	require.NoError(t, err)
	return bulk
}

func TestRetryAllSendsEveryMessageOnceAndCountsThem(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 1234, 50)
	result, err := s.client.AwaitRetryAll(t.Context(), s.startAll(t))
	require.NoError(t, err)
	require.Equal(t, dlq.BulkCompleted, result.Bulk.State)
	require.Equal(t, int64(1234), result.Bulk.Matched)
	require.Equal(t, dlq.BulkCounts{Retried: 1234}, result.Bulk.Counts)
	require.True(t, result.Published)
	require.Equal(t, 1234, s.target.count())
	require.Equal(t, map[dlq.Status]int64{dlq.StatusResolved: 1234}, s.statuses(t))
}

func TestRetryAllKeepsTheOrderOfEveryKey(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 900, 7)
	_, err := s.client.AwaitRetryAll(t.Context(), s.startAll(t))
	require.NoError(t, err)
	s.target.inOrder(t)
}

func TestRetryAllOfAnEmptyTopicEndsWithNothing(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	result, err := s.client.AwaitRetryAll(t.Context(), s.startAll(t))
	require.NoError(t, err)
	require.Equal(t, dlq.BulkCompleted, result.Bulk.State)
	require.Zero(t, result.Bulk.Matched)
}

func TestRetryAllLeavesAloneWhatIsDeadResolvedOrUsedUp(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ids := s.add(t, 3, 3)
	_, err := s.store.MarkDead(t.Context(), ids[0])
	require.NoError(t, err)
	_, err = s.retry(t, ids[1])
	require.NoError(t, err)
	result, err := s.client.AwaitRetryAll(t.Context(), s.startAll(t))
	require.NoError(t, err)
	require.Equal(t, int64(1), result.Bulk.Matched)
	require.Equal(t, int64(1), result.Bulk.Counts.Retried)
	require.Equal(t, dlq.StatusDead, s.message(t, ids[0]).Status)
}

func TestRetryAllTakesOnlyWhatWasThereBeforeItBegan(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 10, 10)
	var once atomic.Bool
	s.target.answers(func(dlq.Envelope) error {
		if once.CompareAndSwap(false, true) {
			s.add(t, 10, 10)
		}
		return nil
	})
	result, err := s.client.AwaitRetryAll(t.Context(), s.startAll(t))
	require.NoError(t, err)
	require.Equal(t, int64(10), result.Bulk.Counts.Retried)
	require.Equal(t, map[dlq.Status]int64{dlq.StatusResolved: 10, dlq.StatusPending: 10}, s.statuses(t))
}

func TestRetryAllCountsWhatWasRefusedApartFromWhatWasSent(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ids := s.add(t, 400, 400)
	bad := map[dlq.ID]dlq.Category{ids[3]: dlq.CategoryBadData, ids[200]: dlq.CategoryAuth}
	s.target.answers(func(e dlq.Envelope) error {
		if category, ok := bad[e.ID]; ok {
			return refuse(category)
		}
		return nil
	})
	result, err := s.client.AwaitRetryAll(t.Context(), s.startAll(t))
	require.NoError(t, err)
	require.Equal(t, dlq.BulkCounts{Retried: 398, Failed: 1, Dead: 1}, result.Bulk.Counts)
	require.Equal(t, map[dlq.Status]int64{dlq.StatusResolved: 398, dlq.StatusPending: 1, dlq.StatusDead: 1}, s.statuses(t))
	detail, err := s.store.Detail(t.Context(), ids[200])
	require.NoError(t, err)
	require.Len(t, detail.Attempts, 1)
	require.Equal(t, dlq.CategoryAuth, detail.Attempts[0].Category)
}

func TestSecondRetryAllJoinsTheFirst(t *testing.T) {
	t.Parallel()
	s := startlessSystem(t)
	s.add(t, 5, 5)
	first := s.startAll(t)
	require.Equal(t, first, s.startAll(t))
	s.start(t)
	result, err := s.client.AwaitRetryAll(t.Context(), first)
	require.NoError(t, err)
	require.Equal(t, first.RunID, result.Bulk.ID.String())
}

func TestRetryAllPausesWhileTheTargetRefusesEverythingAndGoesOnByItself(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ids := s.add(t, 120, 1)
	s.target.answers(func(dlq.Envelope) error { return refuse(dlq.CategoryTransient) })
	execution := s.startAll(t)
	eventually(t, "it pauses itself", func() bool { return s.state(execution) == dlq.BulkPaused })
	require.Contains(t, s.bulk(t, execution).Reason, "refused: transient")
	require.Equal(t, map[dlq.Status]int64{dlq.StatusPending: 120}, s.statuses(t), "nothing is RETRYING")
	require.Zero(t, s.message(t, ids[0]).RetryCount, "what was refused is not counted")
	s.target.answers(nil)
	result, err := s.client.AwaitRetryAll(t.Context(), execution)
	require.NoError(t, err)
	require.Equal(t, int64(120), result.Bulk.Counts.Retried)
	require.Empty(t, result.Bulk.Reason)
	require.Equal(t, 1, s.message(t, ids[0]).RetryCount)
	s.target.inOrder(t)
}

func TestCancelledRetryAllLeavesNothingRetrying(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 20_000, 500)
	s.target.slowly(20 * time.Millisecond) // four seconds for all of it
	execution := s.startAll(t)
	eventually(t, "some are sent", func() bool { return s.target.count() > 500 })
	require.NoError(t, s.client.CancelRetryAll(t.Context(), execution))
	_, err := s.client.AwaitRetryAll(t.Context(), execution)
	require.ErrorIs(t, err, workflows.ErrStopped)
	id, err := dlq.ParseID(execution.RunID)
	require.NoError(t, err)
	bulk, err := s.store.Bulk(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, dlq.BulkCancelled, bulk.State)
	require.Equal(t, bulk.Matched, bulk.Counts.Done())
	require.Positive(t, bulk.Counts.Skipped, "it stopped in the middle")
	statuses := s.statuses(t)
	require.Zero(t, statuses[dlq.StatusRetrying])
	require.Equal(t, bulk.Counts.Retried, statuses[dlq.StatusResolved])
	require.Equal(t, int64(s.target.count()), statuses[dlq.StatusResolved], "nothing sent is forgotten")
}

func TestTerminatedRetryAllIsClosedByTheSweeper(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 100, 1)
	publishing, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.target.answers(func(dlq.Envelope) error { once.Do(func() { close(publishing) }); <-goOn; return nil })
	defer close(goOn)
	execution := s.startAll(t)
	<-publishing
	require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), execution.WorkflowID, execution.RunID, "by hand"))
	id, err := dlq.ParseID(execution.RunID)
	require.NoError(t, err)
	bulk, err := s.store.Bulk(t.Context(), id)
	require.NoError(t, err)
	require.NoError(t, s.sweeper.Sweep(t.Context(), bulk.StartedAt.Add(1)))
	bulk, err = s.store.Bulk(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, dlq.BulkFailed, bulk.State)
	require.Equal(t, map[dlq.Status]int64{dlq.StatusPending: 100}, s.statuses(t))
}
