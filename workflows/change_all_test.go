package workflows_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/store/postgres"
	"dlqmanager/workflows"
)

// acting is a store whose batches can be held or fail.
type acting struct {
	*postgres.Store
	batches, returned atomic.Int64
	before            func(batch int64) error
	after             func(batch int64) error
}

func (a *acting) Act(ctx context.Context, job dlq.Job, limit int) (dlq.ChangeStep, error) {
	batch := a.batches.Add(1)
	defer a.returned.Add(1)
	if a.before != nil {
		if err := a.before(batch); err != nil {
			return dlq.ChangeStep{}, err
		}
	}
	step, err := a.Store.Act(ctx, job, limit)
	if err == nil && a.after != nil {
		err = a.after(batch)
	}
	return step, err
}

func (s *system) createAction(t *testing.T, what dlq.JobKind) dlq.Job {
	t.Helper()
	id := dlq.NewID()
	job, err := s.store.CreateJob(t.Context(), nil, dlq.Job{ID: id, WorkflowID: workflows.JobWorkflowID(dlq.KindDead, id),
		Spec: dlq.JobSpec{Kind: what, Filter: dlq.Filter{Topic: s.topic()}, Reason: "the shop has closed"}})
	require.NoError(t, err)
	return job
}

func (s *system) startAction(t *testing.T, what dlq.JobKind) dlq.ID {
	t.Helper()
	job := s.createAction(t, what)
	_, err := s.client.StartJob(t.Context(), nil, job)
	require.NoError(t, err)
	return job.ID
}

func (s *system) action(t *testing.T, id dlq.ID) dlq.Job {
	t.Helper()
	job, err := s.store.Job(t.Context(), id)
	require.NoError(t, err)
	return job
}

func (s *system) awaitAction(t *testing.T, id dlq.ID) dlq.Job {
	t.Helper()
	result, err := s.client.AwaitJob(t.Context(), changeOf(id))
	require.NoError(t, err)
	return result.Job
}

func TestBulkChangesChangeEveryMessageOnceAndCountThem(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	const messages = 2*dlq.ChangeBatch + 345
	s.add(t, messages, 7)
	for _, test := range []struct {
		action dlq.JobKind
		want   map[dlq.Status]int64
	}{
		{dlq.KindDead, map[dlq.Status]int64{dlq.StatusDead: messages}},
		{dlq.KindRevive, map[dlq.Status]int64{dlq.StatusPending: messages}},
		{dlq.KindDelete, nil},
	} {
		id := s.startAction(t, test.action)
		job := s.awaitAction(t, id)
		require.Equal(t, dlq.JobCompleted, job.State)
		require.Equal(t, []int64{messages, messages, 0}, []int64{job.Matched, job.Counts.Changed, job.Counts.Skipped})
		require.Equal(t, "the shop has closed", job.Spec.Reason)
		require.Equal(t, test.want, s.statuses(t))
		require.Equal(t, job.EndedAt, s.action(t, id).EndedAt)
	}
}

func TestABulkChangeRunsOnce(t *testing.T) {
	t.Parallel()
	s := startlessSystem(t)
	s.add(t, 3, 3)
	job := s.createAction(t, dlq.KindDead)
	first, err := s.client.StartJob(t.Context(), nil, job)
	require.NoError(t, err)
	joined, err := s.client.StartJob(t.Context(), nil, job)
	require.NoError(t, err)
	require.Equal(t, first, joined)
	s.start(t)
	s.awaitAction(t, job.ID)
	_, err = s.client.StartJob(t.Context(), nil, job)
	require.ErrorIs(t, err, dlq.ErrNotFound)
}

// The database commits a batch, and the connection is lost before the answer arrives.
func TestABatchThatIsRepeatedAfterACrashIsCountedOnce(t *testing.T) {
	t.Parallel()
	s := startlessSystem(t)
	store := &acting{Store: s.store, after: func(batch int64) error {
		if batch%2 == 1 {
			return dlq.ErrUnavailable
		}
		return nil
	}}
	s.jobs = store
	s.add(t, 3*dlq.ChangeBatch, 7)
	s.start(t)
	job := s.awaitAction(t, s.startAction(t, dlq.KindDead))
	require.Equal(t, []int64{3 * dlq.ChangeBatch, 3 * dlq.ChangeBatch, 0}, []int64{job.Matched, job.Counts.Changed, job.Counts.Skipped})
	require.Equal(t, map[dlq.Status]int64{dlq.StatusDead: 3 * dlq.ChangeBatch}, s.statuses(t))
	require.GreaterOrEqual(t, store.batches.Load(), int64(4))
}

func TestABulkChangeContinuesOnAnotherWorkerWhenItsWorkerStops(t *testing.T) {
	t.Parallel()
	s := startlessSystem(t)
	store := &acting{Store: s.store, before: func(int64) error { <-time.After(20 * time.Millisecond); return nil }}
	s.jobs = store
	s.add(t, 10*dlq.ChangeBatch, 7)
	s.start(t)
	id := s.startAction(t, dlq.KindDelete)
	eventually(t, "it has begun", func() bool { return store.batches.Load() > 2 })
	began := time.Now()
	s.stop()
	require.Less(t, time.Since(began), 4*time.Second)
	left := s.action(t, id)
	require.Equal(t, dlq.JobRunning, left.State)
	require.Less(t, left.Counts.Changed, left.Matched)
	s.jobs = nil
	s.start(t)
	job := s.awaitAction(t, id)
	require.Equal(t, []int64{10 * dlq.ChangeBatch, 10 * dlq.ChangeBatch, 0}, []int64{job.Matched, job.Counts.Changed, job.Counts.Skipped})
	require.Empty(t, s.statuses(t))
}

// paced is a system whose bulk change takes seconds, and the job once it has begun.
func paced(t *testing.T) (*system, *acting, dlq.ID) {
	t.Helper()
	s := startlessSystem(t)
	store := &acting{Store: s.store, before: func(int64) error { <-time.After(50 * time.Millisecond); return nil }}
	s.jobs = store
	s.add(t, 100*dlq.ChangeBatch, 7)
	s.start(t)
	id := s.startAction(t, dlq.KindDead)
	eventually(t, "it has begun", func() bool { return store.batches.Load() > 2 })
	return s, store, id
}

// requireCancelled checks that the job is cancelled, and that nothing changes afterwards.
func (s *system) requireCancelled(t *testing.T, store *acting, id dlq.ID) {
	t.Helper()
	job := s.action(t, id)
	require.Equal(t, dlq.JobCancelled, job.State)
	require.Equal(t, job.Matched, job.Counts.Changed+job.Counts.Skipped)
	require.Positive(t, job.Counts.Changed)
	require.Positive(t, job.Counts.Skipped)
	batches := store.batches.Load()
	eventually(t, "the activity has returned", func() bool { return store.returned.Load() == store.batches.Load() })
	require.LessOrEqual(t, store.batches.Load(), batches+1)
	require.Equal(t, job.Counts.Changed, s.statuses(t)[dlq.StatusDead], "what is changed stays changed, and no more")
}

func TestACancelledBulkChangeChangesNothingMoreWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	for name, cancel := range map[string]func(*testing.T, *system, dlq.ID) error{
		"by the API": func(t *testing.T, s *system, id dlq.ID) error {
			t.Helper()
			_, err := s.store.StopJob(t.Context(), nil, id, dlq.JobCancelling, "an operator")
			require.NoError(t, err)
			return s.client.SteerJob(t.Context(), nil, changeOf(id), toCancel)
		},
		"in the store only, since Temporal was unavailable": func(t *testing.T, s *system, id dlq.ID) error {
			t.Helper()
			_, err := s.store.StopJob(t.Context(), nil, id, dlq.JobCancelling, "an operator")
			return err
		},
		"in Temporal": func(t *testing.T, s *system, id dlq.ID) error {
			t.Helper()
			return s.temporal.CancelWorkflow(t.Context(), workflows.JobWorkflowID(dlq.KindDead, id), "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, store, id := paced(t)
			began := time.Now()
			require.NoError(t, cancel(t, s, id))
			eventually(t, "it is closed", func() bool { return s.action(t, id).State.IsFinal() })
			require.Less(t, time.Since(began), 2*time.Second)
			s.requireCancelled(t, store, id)
			s.replay(t, "change_all_cancelled", workflows.Execution{WorkflowID: workflows.JobWorkflowID(dlq.KindDead, id)})
		})
	}
}

func TestATerminatedBulkChangeIsClosedByTheSweeper(t *testing.T) {
	t.Parallel()
	s, store, id := paced(t)
	started := s.action(t, id).StartedAt
	require.NoError(t, s.sweeper.Sweep(t.Context(), started.Add(time.Microsecond)))
	require.Equal(t, dlq.JobRunning, s.action(t, id).State, "its workflow runs")
	require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), workflows.JobWorkflowID(dlq.KindDead, id), "", "by hand"))
	require.NoError(t, s.sweeper.Sweep(t.Context(), started.Add(time.Microsecond)))
	job := s.action(t, id)
	require.Equal(t, dlq.JobFailed, job.State)
	require.Equal(t, workflows.GoneReason, job.Reason)
	require.Equal(t, job.Counts.Changed, s.statuses(t)[dlq.StatusDead])
	require.Positive(t, store.batches.Load())
}

func TestABulkChangeWhoseWorkflowWasNeverStartedIsClosedByTheSweeper(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 10, 1)
	created := s.createAction(t, dlq.KindDelete)
	require.NoError(t, s.sweeper.Sweep(t.Context(), created.StartedAt.Add(-time.Microsecond)))
	require.Equal(t, dlq.JobRunning, s.action(t, created.ID).State, "it is too young to be judged")
	require.ErrorIs(t, s.client.SteerJob(t.Context(), nil, changeOf(created.ID), toCancel), dlq.ErrNotFound)
	require.NoError(t, s.sweeper.Sweep(t.Context(), created.StartedAt.Add(time.Microsecond)))
	require.Equal(t, dlq.JobFailed, s.action(t, created.ID).State)

	// A later start of the workflow comes too late.
	_, err := s.client.StartJob(t.Context(), nil, created)
	require.NoError(t, err)
	_, err = s.client.AwaitJob(t.Context(), changeOf(created.ID))
	require.ErrorIs(t, err, workflows.ErrStopped)
	require.Equal(t, map[dlq.Status]int64{dlq.StatusPending: 10}, s.statuses(t))
}

func TestABulkChangeThatCannotBeReadFailsWithTheReason(t *testing.T) {
	t.Parallel()
	s := startlessSystem(t)
	var once sync.Once
	s.jobs = &acting{Store: s.store, before: func(int64) error {
		var err error
		once.Do(func() { err = dlq.ErrSpecUnreadable })
		return err
	}}
	s.add(t, 1, 1)
	s.start(t)
	id := s.startAction(t, dlq.KindDead)
	_, err := s.client.AwaitJob(t.Context(), changeOf(id))
	require.ErrorIs(t, err, workflows.ErrStopped)
	job := s.action(t, id)
	require.Equal(t, dlq.JobFailed, job.State)
	require.Contains(t, job.Reason, dlq.ErrSpecUnreadable.Error())
}

func TestABulkChangeCostsFewEventsOfHistory(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 20*dlq.ChangeBatch, 7)
	id := s.startAction(t, dlq.KindDelete)
	s.awaitAction(t, id)
	history := s.history(t, workflows.Execution{WorkflowID: workflows.JobWorkflowID(dlq.KindDead, id)}, true)
	require.Less(t, len(history.GetEvents()), 30)
}
