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

func (a *acting) Act(ctx context.Context, job dlq.BulkAction, limit int) (dlq.ActionStep, error) {
	batch := a.batches.Add(1)
	defer a.returned.Add(1)
	if a.before != nil {
		if err := a.before(batch); err != nil {
			return dlq.ActionStep{}, err
		}
	}
	step, err := a.Store.Act(ctx, job, limit)
	if err == nil && a.after != nil {
		err = a.after(batch)
	}
	return step, err
}

func (s *system) createAction(t *testing.T, what dlq.Action) dlq.BulkAction {
	t.Helper()
	id := dlq.NewID()
	job, err := s.store.CreateAction(t.Context(), dlq.BulkAction{ID: id, WorkflowID: workflows.BulkActionID(id),
		Spec: dlq.ActionSpec{Action: what, Filter: dlq.Filter{Topic: s.topic()}, Reason: "the shop has closed"}})
	require.NoError(t, err)
	return job
}

func (s *system) startAction(t *testing.T, what dlq.Action) dlq.ID {
	t.Helper()
	job := s.createAction(t, what)
	_, err := s.client.StartBulkAction(t.Context(), job)
	require.NoError(t, err)
	return job.ID
}

func (s *system) action(t *testing.T, id dlq.ID) dlq.BulkAction {
	t.Helper()
	job, err := s.store.Action(t.Context(), id)
	require.NoError(t, err)
	return job
}

func (s *system) awaitAction(t *testing.T, id dlq.ID) dlq.BulkAction {
	t.Helper()
	job, err := s.client.AwaitBulkAction(t.Context(), id)
	require.NoError(t, err)
	return job
}

func TestBulkActionsChangeEveryMessageOnceAndCountThem(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	const messages = 2*dlq.ActionBatch + 345
	s.add(t, messages, 7)
	for _, test := range []struct {
		action dlq.Action
		want   map[dlq.Status]int64
	}{
		{dlq.ActionDead, map[dlq.Status]int64{dlq.StatusDead: messages}},
		{dlq.ActionRevive, map[dlq.Status]int64{dlq.StatusPending: messages}},
		{dlq.ActionDelete, nil},
	} {
		id := s.startAction(t, test.action)
		job := s.awaitAction(t, id)
		require.Equal(t, dlq.BulkCompleted, job.State)
		require.Equal(t, []int64{messages, messages, 0}, []int64{job.Matched, job.Changed, job.Skipped})
		require.Equal(t, "the shop has closed", job.Spec.Reason)
		require.Equal(t, test.want, s.statuses(t))
		require.Equal(t, job.EndedAt, s.action(t, id).EndedAt)
	}
}

func TestABulkActionRunsOnce(t *testing.T) {
	t.Parallel()
	s := startlessSystem(t)
	s.add(t, 3, 3)
	job := s.createAction(t, dlq.ActionDead)
	first, err := s.client.StartBulkAction(t.Context(), job)
	require.NoError(t, err)
	joined, err := s.client.StartBulkAction(t.Context(), job)
	require.NoError(t, err)
	require.Equal(t, first, joined)
	s.start(t)
	s.awaitAction(t, job.ID)
	_, err = s.client.StartBulkAction(t.Context(), job)
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
	s.acting = store
	s.add(t, 3*dlq.ActionBatch, 7)
	s.start(t)
	job := s.awaitAction(t, s.startAction(t, dlq.ActionDead))
	require.Equal(t, []int64{3 * dlq.ActionBatch, 3 * dlq.ActionBatch, 0}, []int64{job.Matched, job.Changed, job.Skipped})
	require.Equal(t, map[dlq.Status]int64{dlq.StatusDead: 3 * dlq.ActionBatch}, s.statuses(t))
	require.GreaterOrEqual(t, store.batches.Load(), int64(4))
}

func TestABulkActionContinuesOnAnotherWorkerWhenItsWorkerStops(t *testing.T) {
	t.Parallel()
	s := startlessSystem(t)
	store := &acting{Store: s.store, before: func(int64) error { <-time.After(20 * time.Millisecond); return nil }}
	s.acting = store
	s.add(t, 10*dlq.ActionBatch, 7)
	s.start(t)
	id := s.startAction(t, dlq.ActionDelete)
	eventually(t, "it has begun", func() bool { return store.batches.Load() > 2 })
	began := time.Now()
	s.stop()
	require.Less(t, time.Since(began), 4*time.Second)
	left := s.action(t, id)
	require.Equal(t, dlq.BulkRunning, left.State)
	require.Less(t, left.Changed, left.Matched)
	s.acting = nil
	s.start(t)
	job := s.awaitAction(t, id)
	require.Equal(t, []int64{10 * dlq.ActionBatch, 10 * dlq.ActionBatch, 0}, []int64{job.Matched, job.Changed, job.Skipped})
	require.Empty(t, s.statuses(t))
}

// paced is a system whose bulk action takes seconds, and the job once it has begun.
func paced(t *testing.T) (*system, *acting, dlq.ID) {
	t.Helper()
	s := startlessSystem(t)
	store := &acting{Store: s.store, before: func(int64) error { <-time.After(50 * time.Millisecond); return nil }}
	s.acting = store
	s.add(t, 100*dlq.ActionBatch, 7)
	s.start(t)
	id := s.startAction(t, dlq.ActionDead)
	eventually(t, "it has begun", func() bool { return store.batches.Load() > 2 })
	return s, store, id
}

// requireCancelled checks that the job is cancelled, and that nothing changes afterwards.
func (s *system) requireCancelled(t *testing.T, store *acting, id dlq.ID) {
	t.Helper()
	job := s.action(t, id)
	require.Equal(t, dlq.BulkCancelled, job.State)
	require.Equal(t, job.Matched, job.Changed+job.Skipped)
	require.Positive(t, job.Changed)
	require.Positive(t, job.Skipped)
	batches := store.batches.Load()
	eventually(t, "the activity has returned", func() bool { return store.returned.Load() == store.batches.Load() })
	require.LessOrEqual(t, store.batches.Load(), batches+1)
	require.Equal(t, job.Changed, s.statuses(t)[dlq.StatusDead], "what is changed stays changed, and no more")
}

func TestACancelledBulkActionChangesNothingMoreWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	for name, cancel := range map[string]func(*testing.T, *system, dlq.ID) error{
		"by the API": func(t *testing.T, s *system, id dlq.ID) error {
			t.Helper()
			_, err := s.store.StopAction(t.Context(), id, "an operator")
			require.NoError(t, err)
			return s.client.CancelBulkAction(t.Context(), id)
		},
		"in the store only, since Temporal was unavailable": func(t *testing.T, s *system, id dlq.ID) error {
			t.Helper()
			_, err := s.store.StopAction(t.Context(), id, "an operator")
			return err
		},
		"in Temporal": func(t *testing.T, s *system, id dlq.ID) error {
			t.Helper()
			return s.temporal.CancelWorkflow(t.Context(), workflows.BulkActionID(id), "")
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
			s.replay(t, "bulk_action_cancelled", workflows.Execution{WorkflowID: workflows.BulkActionID(id)})
		})
	}
}

func TestATerminatedBulkActionIsClosedByTheSweeper(t *testing.T) {
	t.Parallel()
	s, store, id := paced(t)
	started := s.action(t, id).StartedAt
	require.NoError(t, s.sweeper.Sweep(t.Context(), started.Add(time.Microsecond)))
	require.Equal(t, dlq.BulkRunning, s.action(t, id).State, "its workflow runs")
	require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), workflows.BulkActionID(id), "", "by hand"))
	require.NoError(t, s.sweeper.Sweep(t.Context(), started.Add(time.Microsecond)))
	job := s.action(t, id)
	require.Equal(t, dlq.BulkFailed, job.State)
	require.Equal(t, workflows.GoneReason, job.Reason)
	require.Equal(t, job.Changed, s.statuses(t)[dlq.StatusDead])
	require.Positive(t, store.batches.Load())
}

func TestABulkActionWhoseWorkflowWasNeverStartedIsClosedByTheSweeper(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 10, 1)
	created := s.createAction(t, dlq.ActionDelete)
	require.NoError(t, s.sweeper.Sweep(t.Context(), created.StartedAt.Add(-time.Microsecond)))
	require.Equal(t, dlq.BulkRunning, s.action(t, created.ID).State, "it is too young to be judged")
	require.ErrorIs(t, s.client.CancelBulkAction(t.Context(), created.ID), dlq.ErrNotFound)
	require.NoError(t, s.sweeper.Sweep(t.Context(), created.StartedAt.Add(time.Microsecond)))
	require.Equal(t, dlq.BulkFailed, s.action(t, created.ID).State)

	// A later start of the workflow comes too late.
	_, err := s.client.StartBulkAction(t.Context(), created)
	require.NoError(t, err)
	_, err = s.client.AwaitBulkAction(t.Context(), created.ID)
	require.ErrorIs(t, err, workflows.ErrStopped)
	require.Equal(t, map[dlq.Status]int64{dlq.StatusPending: 10}, s.statuses(t))
}

func TestABulkActionThatCannotBeReadFailsWithTheReason(t *testing.T) {
	t.Parallel()
	s := startlessSystem(t)
	var once sync.Once
	s.acting = &acting{Store: s.store, before: func(int64) error {
		var err error
		once.Do(func() { err = dlq.ErrSpecUnreadable })
		return err
	}}
	s.add(t, 1, 1)
	s.start(t)
	id := s.startAction(t, dlq.ActionDead)
	_, err := s.client.AwaitBulkAction(t.Context(), id)
	require.ErrorIs(t, err, workflows.ErrStopped)
	job := s.action(t, id)
	require.Equal(t, dlq.BulkFailed, job.State)
	require.Contains(t, job.Reason, dlq.ErrSpecUnreadable.Error())
}

func TestABulkActionCostsFewEventsOfHistory(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 20*dlq.ActionBatch, 7)
	id := s.startAction(t, dlq.ActionDelete)
	s.awaitAction(t, id)
	history := s.history(t, workflows.Execution{WorkflowID: workflows.BulkActionID(id)}, true)
	require.Less(t, len(history.GetEvents()), 30)
}
