package workflows_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/workflows"
)

func TestCommandsInQuickSuccessionAreAllAnsweredAndLoseNothing(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 4_000, 100)
	s.target.slowly(40 * time.Millisecond)
	job := s.startAll(t)
	eventually(t, "some are sent", func() bool { return s.target.count() > 200 })
	var commands sync.WaitGroup
	for range 4 {
		commands.Go(func() {
			if err := s.client.SteerJob(t.Context(), nil, retryOf(job), toPause("to look")); err != nil {
				t.Errorf("pause: %v", err)
			}
		})
		commands.Go(func() {
			if err := s.client.SteerJob(t.Context(), nil, retryOf(job), toResume); err != nil {
				t.Errorf("resume: %v", err)
			}
		})
	}
	commands.Wait()
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toResume))
	s.target.slowly(0)
	result, err := s.client.AwaitJob(t.Context(), retryOf(job))
	require.NoError(t, err)
	require.Equal(t, dlq.JobCounts{Retried: 4_000}, result.Job.Counts)
	require.Equal(t, 4_000, s.target.count())
	s.target.inOrder(t)
}

// Temporal may repeat a pause whose answer was lost. The repeated pause may come after the resume.
func TestAJobWhoseRowAnotherClientPausedContinues(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 2_000, 100)
	s.target.slowly(40 * time.Millisecond)
	job := s.startAll(t)
	eventually(t, "some are sent", func() bool { return s.target.count() > 200 })
	_, err := s.store.PauseJob(t.Context(), nil, s.bulk(t, job).ID, "late")
	require.NoError(t, err)
	s.target.slowly(0)
	result, err := s.client.AwaitJob(t.Context(), retryOf(job))
	require.NoError(t, err)
	require.Equal(t, dlq.JobCompleted, result.Job.State)
	require.Equal(t, int64(2_000), result.Job.Counts.Retried)
}

func TestAnEarlierAttemptAtALaneIsFenced(t *testing.T) {
	t.Parallel()
	s := startlessSystem(t)
	s.add(t, 2_000, 100)
	job, err := s.create(t)
	require.NoError(t, err)
	older, err := s.store.OpenLane(t.Context(), job.ID, 0, dlq.LaneAttempt{})
	require.NoError(t, err)
	claim, _, err := s.store.NextPage(t.Context(), older, nil, true)
	require.NoError(t, err)
	require.Len(t, claim.Page, dlq.PageSize)
	newer, err := s.store.OpenLane(t.Context(), job.ID, 0, dlq.LaneAttempt{})
	require.NoError(t, err)

	stale, _, err := s.store.NextPage(t.Context(), older, nil, true)
	require.NoError(t, err)
	require.True(t, stale.Stopped)
	require.Empty(t, stale.Page)
	_, err = s.store.FinalizePage(t.Context(), older, dlqtest.Outcomes(claim.Page, dlq.ResultFailed))
	require.ErrorIs(t, err, dlq.ErrFenced)
	left, err := s.store.ClaimedPage(t.Context(), newer, dlq.PageBytes)
	require.NoError(t, err)
	require.Len(t, left.Page, dlq.PageSize, "what it had claimed is the newer one's to send")
}

// The sweeper closes the job's row when it does not find the workflow.
func TestAJobWhoseRowAnotherClientClosedEnds(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 4_000, 100)
	s.target.slowly(40 * time.Millisecond)
	job := s.startAll(t)
	eventually(t, "some are sent", func() bool { return s.target.count() > 200 })
	closed, err := s.store.EndJob(t.Context(), nil, job, dlq.JobFailed, "workflow not found")
	require.NoError(t, err)
	_ = s.client.SteerJob(t.Context(), nil, retryOf(job), toPause("")) // ends the wait early; it may come too late
	_, err = s.client.AwaitJob(t.Context(), retryOf(job))
	require.ErrorIs(t, err, workflows.ErrStopped)
	bulk := s.bulk(t, job)
	require.Equal(t, closed.State, bulk.State)
	require.Equal(t, "workflow not found", bulk.Reason)
	require.Zero(t, s.statuses(t)[dlq.StatusRetrying])
}
