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

// While the first lane asks the target, the second sees it closed. It says so after the first has sent all it had.
func TestAJobIsNotPausedForATargetThatIsOpenAgain(t *testing.T) {
	t.Parallel()
	bulk := dlq.BulkRetry{ID: dlq.NewID(), State: dlq.BulkRunning, Lanes: 2}
	in := func(state dlq.BulkState) dlq.BulkRetry {
		bulk.State = state
		return bulk
	}
	env := quietSuite().NewTestWorkflowEnvironment()
	var steps *activities.Bulk
	env.RegisterActivity(&activities.Bulk{})
	env.OnActivity(steps.BeginBulk, mock.Anything, mock.Anything).Return(activities.BulkBegun{Bulk: bulk, Published: true}, nil)
	lane := func(number int) any {
		return mock.MatchedBy(func(in activities.LaneInput) bool { return in.Number == number })
	}
	done := activities.LaneResult{End: activities.LaneDone}
	waiting := activities.LaneResult{End: activities.LaneWaiting, For: 20 * time.Second, Reason: "not authorized", Category: dlq.CategoryAuth}
	env.OnActivity(steps.RunLane, mock.Anything, lane(0)).Return(done, nil).Twice()
	env.OnActivity(steps.RunLane, mock.Anything, lane(1)).Return(waiting, nil).After(time.Second).Once()
	env.OnActivity(steps.RunLane, mock.Anything, lane(1)).Return(done, nil).Once()
	env.OnActivity(steps.StopBulk, mock.Anything, mock.Anything).Return(func(context.Context, activities.StateInput) (dlq.BulkRetry, error) {
		return in(dlq.BulkPausing), nil
	})
	env.OnActivity(steps.PauseBulk, mock.Anything, mock.Anything).Return(func(_ context.Context, pause activities.PauseInput) (dlq.BulkRetry, error) {
		require.True(t, pause.TargetClosed)
		return bulk, nil // the store found no closed target
	})
	env.OnActivity(steps.ReadBulk, mock.Anything, mock.Anything).Return(func(context.Context, dlq.ID) (dlq.BulkRetry, error) { return bulk, nil }).Maybe()
	env.OnActivity(steps.ResumeBulk, mock.Anything, mock.Anything).Return(func(context.Context, activities.ResumeInput) (dlq.BulkRetry, error) {
		return in(dlq.BulkRunning), nil
	})
	env.OnActivity(steps.EndBulk, mock.Anything, mock.Anything).Return(func(_ context.Context, end activities.StateInput) (dlq.BulkRetry, error) {
		return in(end.State), nil
	})
	env.ExecuteWorkflow(workflows.RetryAll, workflows.RetryAllInput{ID: bulk.ID})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, dlq.BulkCompleted, bulk.State)
	env.AssertExpectations(t)
}
