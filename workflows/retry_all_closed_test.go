package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"

	"dlqmanager/activities"
	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

// While the first lane tries the target, the second lane finds the target closed. The second lane reports this after the
// first lane has sent all its messages.
func TestAJobIsNotPausedForATargetThatIsOpenAgain(t *testing.T) {
	t.Parallel()
	bulk := dlq.Job{ID: dlq.NewID(), Spec: dlq.JobSpec{Kind: dlq.KindRetry}, State: dlq.JobRunning, Lanes: 2}
	in := func(state dlq.JobState) dlq.Job {
		bulk.State = state
		return bulk
	}
	env := quietSuite().NewTestWorkflowEnvironment()
	var steps *activities.Jobs
	env.RegisterActivity(&activities.Jobs{})
	env.OnActivity(steps.BeginJob, mock.Anything, mock.Anything).Return(activities.JobBegun{Job: bulk, Published: true}, nil)
	lane := func(number int) any {
		return mock.MatchedBy(func(in activities.LaneInput) bool { return in.Number == number })
	}
	done := activities.LaneResult{End: activities.LaneDone}
	waiting := activities.LaneResult{End: activities.LaneWaiting, For: 20 * time.Second, Reason: "not authorized", Category: dlq.CategoryAuth}
	env.OnActivity(steps.RunLane, mock.Anything, lane(0)).Return(done, nil).Twice()
	env.OnActivity(steps.RunLane, mock.Anything, lane(1)).Return(waiting, nil).After(time.Second).Once()
	env.OnActivity(steps.RunLane, mock.Anything, lane(1)).Return(done, nil).Once()
	env.OnActivity(steps.StopJob, mock.Anything, mock.Anything).Return(func(context.Context, activities.StateInput) (dlq.Job, error) {
		return in(dlq.JobPausing), nil
	})
	env.OnActivity(steps.PauseJob, mock.Anything, mock.Anything).Return(func(_ context.Context, pause activities.StateInput) (dlq.Job, error) {
		require.True(t, pause.TargetClosed)
		return bulk, nil // the store found no closed target
	})
	env.OnActivity(steps.ReadJob, mock.Anything, mock.Anything).Return(func(context.Context, dlq.ID) (dlq.Job, error) { return bulk, nil }).Maybe()
	env.OnActivity(steps.ResumeJob, mock.Anything, mock.Anything).Return(func(context.Context, activities.StateInput) (dlq.Job, error) {
		return in(dlq.JobRunning), nil
	})
	env.OnActivity(steps.EndJob, mock.Anything, mock.Anything).Return(func(_ context.Context, end activities.StateInput) (dlq.Job, error) {
		return in(end.State), nil
	})
	env.ExecuteWorkflow(workflows.RetryAll, workflows.JobInput{ID: bulk.ID})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, dlq.JobCompleted, bulk.State)
	env.AssertExpectations(t)
}
