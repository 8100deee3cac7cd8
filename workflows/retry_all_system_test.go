package workflows_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/workflows"
)

// startAll creates a bulk retry of the topic, or joins the running one, and starts its
// workflow.
func (s *system) startAll(t *testing.T, change ...func(*dlq.JobSpec)) dlq.ID {
	t.Helper()
	created, err := s.create(t, change...)
	require.NoError(t, err)
	_, err = s.client.StartJob(t.Context(), nil, created)
	require.NoError(t, err)
	return created.ID
}

func (s *system) create(t *testing.T, change ...func(*dlq.JobSpec)) (dlq.Job, error) {
	t.Helper()
	id := dlq.NewID()
	bulk := dlq.Job{ID: id, WorkflowID: workflows.JobWorkflowID(dlq.KindRetry, id), Lanes: 4}
	bulk.Spec.Kind, bulk.Spec.Topic = dlq.KindRetry, s.topic()
	for _, c := range change {
		c(&bulk.Spec)
	}
	return s.store.CreateJob(t.Context(), nil, bulk)
}

// execution is the workflow of a job.
func execution(job dlq.ID) workflows.Execution {
	return workflows.Execution{WorkflowID: workflows.JobWorkflowID(dlq.KindRetry, job)}
}

// state returns the state of the job.
func (s *system) state(job dlq.ID) dlq.JobState {
	bulk, err := s.store.Job(context.Background(), job)
	if err != nil {
		return ""
	}
	return bulk.State
}

func (s *system) bulk(t *testing.T, job dlq.ID) dlq.Job {
	t.Helper()
	bulk, err := s.store.Job(t.Context(), job)
	require.NoError(t, err)
	return bulk
}

func TestRetryAllSendsEveryMessageOnceAndCountsThem(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 1234, 50)
	result, err := s.client.AwaitJob(t.Context(), retryOf(s.startAll(t)))
	require.NoError(t, err)
	require.Equal(t, dlq.JobCompleted, result.Job.State)
	require.Equal(t, int64(1234), result.Job.Matched)
	require.Equal(t, dlq.JobCounts{Retried: 1234}, result.Job.Counts)
	require.True(t, result.Published)
	require.Equal(t, 1234, s.target.count())
	require.Equal(t, map[dlq.Status]int64{dlq.StatusResolved: 1234}, s.statuses(t))
}

func TestRetryAllKeepsTheOrderOfEveryKey(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 900, 7)
	_, err := s.client.AwaitJob(t.Context(), retryOf(s.startAll(t)))
	require.NoError(t, err)
	s.target.inOrder(t)
}

func TestRetryAllOfAnEmptyTopicEndsWithNothing(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	result, err := s.client.AwaitJob(t.Context(), retryOf(s.startAll(t)))
	require.NoError(t, err)
	require.Equal(t, dlq.JobCompleted, result.Job.State)
	require.Zero(t, result.Job.Matched)
}

func TestRetryAllIgnoresDeadResolvedAndUsedUpMessages(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ids := s.add(t, 3, 3)
	_, err := s.store.MarkDead(t.Context(), nil, ids[0])
	require.NoError(t, err)
	_, err = s.retry(t, ids[1])
	require.NoError(t, err)
	result, err := s.client.AwaitJob(t.Context(), retryOf(s.startAll(t)))
	require.NoError(t, err)
	require.Equal(t, int64(1), result.Job.Matched)
	require.Equal(t, int64(1), result.Job.Counts.Retried)
	require.Equal(t, dlq.StatusDead, s.message(t, ids[0]).Status)
}

func TestRetryAllSendsOnlyMessagesFromBeforeItsSnapshot(t *testing.T) {
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
	result, err := s.client.AwaitJob(t.Context(), retryOf(s.startAll(t)))
	require.NoError(t, err)
	require.Equal(t, int64(10), result.Job.Counts.Retried)
	require.Equal(t, map[dlq.Status]int64{dlq.StatusResolved: 10, dlq.StatusPending: 10}, s.statuses(t))
}

func TestRetryAllCountsRefusedAndSentMessagesSeparately(t *testing.T) {
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
	result, err := s.client.AwaitJob(t.Context(), retryOf(s.startAll(t)))
	require.NoError(t, err)
	require.Equal(t, dlq.JobCounts{Retried: 398, Failed: 1, Dead: 1}, result.Job.Counts)
	require.Equal(t, map[dlq.Status]int64{dlq.StatusResolved: 398, dlq.StatusPending: 1, dlq.StatusDead: 1}, s.statuses(t))
	detail, err := dlqtest.Detail(t.Context(), s.store, ids[200])
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
	result, err := s.client.AwaitJob(t.Context(), retryOf(first))
	require.NoError(t, err)
	require.Equal(t, first, result.Job.ID)
}

func TestRetryAllPausesWhileTheTargetRefusesEverythingAndResumesByItself(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ids := s.add(t, 120, 1)
	s.target.answers(func(dlq.Envelope) error { return refuse(dlq.CategoryTransient) })
	job := s.startAll(t)
	eventually(t, "it pauses itself", func() bool { return s.state(job) == dlq.JobPaused })
	require.Contains(t, s.bulk(t, job).Reason, "refused: transient")
	require.Equal(t, map[dlq.Status]int64{dlq.StatusPending: 120}, s.statuses(t), "nothing is RETRYING")
	require.Zero(t, s.message(t, ids[0]).RetryCount, "what was refused is not counted")
	s.target.answers(nil)
	result, err := s.client.AwaitJob(t.Context(), retryOf(job))
	require.NoError(t, err)
	require.Equal(t, int64(120), result.Job.Counts.Retried)
	require.Empty(t, result.Job.Reason)
	require.Equal(t, 1, s.message(t, ids[0]).RetryCount)
	s.target.inOrder(t)
}

func TestCancelledRetryAllLeavesNothingRetrying(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 20_000, 500)
	s.target.slowly(20 * time.Millisecond) // four seconds for all messages
	job := s.startAll(t)
	eventually(t, "some are sent", func() bool { return s.target.count() > 500 })
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toCancel))
	_, err := s.client.AwaitJob(t.Context(), retryOf(job))
	require.ErrorIs(t, err, workflows.ErrStopped)
	bulk := s.bulk(t, job)
	require.Equal(t, dlq.JobCancelled, bulk.State)
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
	job := s.startAll(t)
	<-publishing
	require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), workflows.JobWorkflowID(dlq.KindRetry, job), "", "by hand"))
	require.NoError(t, s.sweeper.Sweep(t.Context(), s.bulk(t, job).StartedAt.Add(time.Microsecond)))
	require.Equal(t, dlq.JobFailed, s.state(job))
	require.Equal(t, map[dlq.Status]int64{dlq.StatusPending: 100}, s.statuses(t))
}

func TestAJobWhoseWorkflowWasNeverStartedIsClosedByTheSweeper(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 10, 1)
	created, err := s.create(t)
	require.NoError(t, err)
	require.NoError(t, s.sweeper.Sweep(t.Context(), created.StartedAt.Add(-time.Microsecond)))
	require.Equal(t, dlq.JobRunning, s.state(created.ID), "it is too young to be judged")
	require.NoError(t, s.sweeper.Sweep(t.Context(), created.StartedAt.Add(time.Microsecond)))
	bulk := s.bulk(t, created.ID)
	require.Equal(t, dlq.JobFailed, bulk.State)
	require.Contains(t, bulk.Reason, "never started")
	require.ErrorIs(t, s.client.SteerJob(t.Context(), nil, retryOf(created.ID), toCancel), dlq.ErrNotFound)

	// A later start of the workflow comes too late.
	_, err = s.client.StartJob(t.Context(), nil, created)
	require.NoError(t, err)
	_, err = s.client.AwaitJob(t.Context(), retryOf(created.ID))
	require.ErrorIs(t, err, workflows.ErrStopped)
	require.Equal(t, bulk, s.bulk(t, created.ID))
	require.Zero(t, s.target.count())
}

func TestAJobRunsOnce(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 10, 1)
	created, err := s.create(t)
	require.NoError(t, err)
	first, err := s.client.StartJob(t.Context(), nil, created)
	require.NoError(t, err)
	joined, err := s.client.StartJob(t.Context(), nil, created)
	if err == nil { // the workflow may have ended already
		require.Equal(t, first, joined)
	}
	_, err = s.client.AwaitJob(t.Context(), retryOf(created.ID))
	require.NoError(t, err)
	_, err = s.client.StartJob(t.Context(), nil, created)
	require.ErrorIs(t, err, dlq.ErrNotFound)
	require.Equal(t, 10, s.target.count())
}
