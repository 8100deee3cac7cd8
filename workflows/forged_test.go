package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"dlqmanager/activities"
	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

func TestAForgedStateDoesNotReplaceThatOfTheJob(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 5, 5)
	bulk, err := s.create(t, func(spec *dlq.JobSpec) { spec.Ramp = &dlq.Ramp{Steps: []int{1}, Wait: time.Hour} })
	require.NoError(t, err)
	_, err = s.temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: bulk.WorkflowID, TaskQueue: s.queue}, workflows.RetryAllType,
		map[string]any{"job_id": bulk.ID, "resumed": map[string]any{
			"bulk": map[string]any{"id": bulk.ID, "lanes": 1_000_000_000, "state": "RUNNING"}, "ramp_step": 1, "published": true,
		}})
	require.NoError(t, err)
	eventually(t, "the first step is sent", func() bool { return s.statuses(t)[dlq.StatusResolved] == 1 })
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(bulk.ID), toPause(""))) // returns after the lanes have ended
	require.Equal(t, map[dlq.Status]int64{dlq.StatusResolved: 1, dlq.StatusPending: 4}, s.statuses(t))
}

func TestARunThatContinuesAsNewKeepsItsState(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 5, 5)
	bulk, err := s.create(t, func(spec *dlq.JobSpec) { spec.Ramp = &dlq.Ramp{Steps: []int{1}, Wait: time.Hour} })
	require.NoError(t, err)
	_, err = s.store.CountJob(t.Context(), bulk.ID)
	require.NoError(t, err)
	w := worker.New(s.temporal, s.queue+"-before", worker.Options{})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context) (workflows.JobResult, error) {
		return workflows.JobResult{}, workflow.NewContinueAsNewError(workflow.WithWorkflowTaskQueue(ctx, s.queue), workflows.RetryAllType,
			workflows.JobInput{ID: bulk.ID, Resumed: &workflows.Resumed{Published: true, RampStep: 1}})
	}, workflow.RegisterOptions{Name: "Before"})
	require.NoError(t, w.Start())
	defer w.Stop()
	_, err = s.temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: bulk.WorkflowID, TaskQueue: s.queue + "-before"}, "Before")
	require.NoError(t, err)
	result, err := s.client.AwaitJob(t.Context(), retryOf(bulk.ID))
	require.NoError(t, err)
	require.True(t, result.Published)
	require.Equal(t, dlq.JobCounts{Retried: 5}, result.Job.Counts, "the step of the ramp was done")
}

func TestAJobWithoutARowOrThatHasEndedDoesNothing(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 5, 5)
	ended, err := s.create(t)
	require.NoError(t, err)
	_, err = s.store.EndJob(t.Context(), nil, ended.ID, dlq.JobFailed, "")
	require.NoError(t, err)
	for _, id := range []dlq.ID{ended.ID, dlq.NewID()} {
		for name, input := range map[string]any{workflows.RetryAllType: workflows.JobInput{ID: id}, workflows.ChangeAllType: workflows.JobInput{ID: id}} {
			run, err := s.temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: s.queue + name + id.String(), TaskQueue: s.queue}, name, input)
			require.NoError(t, err)
			require.Error(t, run.Get(t.Context(), nil))
		}
	}
	require.Equal(t, map[dlq.Status]int64{dlq.StatusPending: 5}, s.statuses(t))
}

func TestAWorkflowRunsNoJobOfAnotherKind(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 5, 5)
	retry, err := s.create(t)
	require.NoError(t, err)
	change := s.createAction(t, dlq.KindDead)
	for name, id := range map[string]dlq.ID{workflows.ChangeAllType: retry.ID, workflows.RetryAllType: change.ID} {
		run, err := s.temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: s.queue + name, TaskQueue: s.queue}, name, workflows.JobInput{ID: id})
		require.NoError(t, err)
		require.ErrorContains(t, run.Get(t.Context(), nil), "is not run by "+name)
		job, err := s.store.Job(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, dlq.JobRunning, job.State)
	}
	_, err = s.store.Act(t.Context(), retry, dlq.ChangeBatch)
	require.Error(t, err)
	require.Equal(t, map[dlq.Status]int64{dlq.StatusPending: 5}, s.statuses(t))
}

func TestAStrangersWorkflowCannotEndTheRetryOfAnother(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	id := s.add(t, 1, 1)[0]
	owner := dlq.Owner{WorkflowID: workflows.RetryMessageID(id), Token: "token"}
	_, err := s.store.Claim(t.Context(), id, owner, dlq.ID{})
	require.NoError(t, err)
	w := worker.New(s.temporal, s.queue+"-stranger", worker.Options{})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context, step string) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{TaskQueue: s.queue, StartToCloseTimeout: time.Minute})
		var input any = activities.RetryInput{MessageID: id, Owner: owner}
		if step == "Finalize" {
			input = activities.FinalizeInput{Owner: owner, Outcome: dlq.Outcome{ID: id, Result: dlq.ResultDelivered}}
		}
		return workflow.ExecuteActivity(ctx, step, input).Get(ctx, nil)
	}, workflow.RegisterOptions{Name: "Stranger"})
	require.NoError(t, w.Start())
	defer w.Stop()
	for _, step := range []string{"MarkRetrying", "Republish", "Finalize"} {
		run, err := s.temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: s.queue + step, TaskQueue: s.queue + "-stranger"}, "Stranger", step)
		require.NoError(t, err)
		require.ErrorContains(t, run.Get(t.Context(), nil), "which this is not")
	}
	require.Equal(t, dlq.StatusRetrying, s.message(t, id).Status)
	require.Zero(t, s.target.count())
}

func TestAWorkflowThatOnlyHasTheIdOfAJobDoesNotKeepItOpen(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for _, options := range []client.StartWorkflowOptions{{TaskQueue: s.queue + "-nobody"}, {TaskQueue: s.queue}} {
		bulk, err := s.create(t)
		require.NoError(t, err)
		options.ID = bulk.WorkflowID
		name := workflows.RetryAllType
		if options.TaskQueue == s.queue {
			name = "Stranger"
		}
		_, err = s.temporal.ExecuteWorkflow(t.Context(), options, name)
		require.NoError(t, err)
		require.NoError(t, s.sweeper.Sweep(t.Context(), time.Now().Add(time.Minute)))
		require.Equal(t, dlq.JobFailed, s.state(bulk.ID))
	}
}
