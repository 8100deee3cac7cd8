package workflows_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

// hang makes every publish that begins from now on wait for release and then
// end with err.
func (s *system) hang(t *testing.T, err error) (release func()) {
	t.Helper()
	released := make(chan struct{})
	release = sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	s.target.answers(func(dlq.Envelope) error { <-released; return err })
	return release
}

// hangingJob is a job of 1000 messages whose lanes all hang in the publish of a page.
func (s *system) hangingJob(t *testing.T, err error) (job dlq.ID, release func()) {
	t.Helper()
	s.add(t, 1_000, 100)
	release = s.hang(t, err)
	job = s.startAll(t)
	eventually(t, "every lane hangs", func() bool { return s.target.begun() == 4 })
	require.Equal(t, int64(4*dlq.PageSize), s.statuses(t)[dlq.StatusRetrying])
	return job, release
}

// stops requires that the job gets the state in time, and then claims nothing more while
// its pages are still in flight.
func (s *system) stops(t *testing.T, job dlq.ID, state dlq.JobState) {
	t.Helper()
	started := time.Now()
	eventually(t, "nothing more is claimed", func() bool { return s.bulk(t, job).State == state })
	t.Logf("%s after %s", state, time.Since(started).Round(time.Millisecond))
	require.EqualValues(t, 4*dlq.PageSize, s.statuses(t)[dlq.StatusRetrying])
}

// sendsAll requires that the job delivers its thousand messages, each once.
func (s *system) sendsAll(t *testing.T, job dlq.ID) {
	t.Helper()
	result, err := s.client.AwaitJob(t.Context(), retryOf(job))
	require.NoError(t, err)
	require.Equal(t, dlq.JobCounts{Retried: 1_000}, result.Job.Counts)
	require.Equal(t, map[dlq.Status]int64{dlq.StatusResolved: 1_000}, s.statuses(t))
	require.Equal(t, 1_000, s.target.count(), "nothing was sent twice")
	s.target.inOrder(t)
	page, err := s.store.List(t.Context(), dlq.ListQuery{Filter: dlq.Filter{Topic: s.topic()}, PageSize: 1_000})
	require.NoError(t, err)
	for _, m := range page.Messages {
		require.Equal(t, 1, m.RetryCount, m.ID)
	}
}

// askToPause sends the command and returns once the workflow has it.
func (s *system) askToPause(t *testing.T, job dlq.ID, reason string) client.WorkflowUpdateHandle {
	t.Helper()
	return s.ask(t, job, workflows.UpdatePause, workflows.PauseUpdate{Reason: reason})
}

// ask sends a command and returns once the workflow has it.
func (s *system) ask(t *testing.T, job dlq.ID, update string, args ...any) client.WorkflowUpdateHandle {
	t.Helper()
	handle, err := s.temporal.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: workflows.JobWorkflowID(dlq.KindRetry, job), UpdateName: update, Args: args, WaitForStage: client.WorkflowUpdateStageAccepted,
	})
	require.NoError(t, err)
	return handle
}

func TestPauseClaimsNothingMoreAndWaitsForClaimedPages(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	job, release := s.hangingJob(t, nil)
	paused := s.askToPause(t, job, "the broker hangs")
	s.stops(t, job, dlq.JobPausing)
	require.Equal(t, "the broker hangs", s.bulk(t, job).Reason)

	release()
	require.NoError(t, paused.Get(t.Context(), nil))
	require.Equal(t, dlq.JobPaused, s.bulk(t, job).State)
	require.Equal(t, map[dlq.Status]int64{dlq.StatusResolved: 4 * dlq.PageSize, dlq.StatusPending: 1_000 - 4*dlq.PageSize}, s.statuses(t))

	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toResume))
	s.sendsAll(t, job)
	s.replays(t, "completed", execution(job))
}

func TestCancelClaimsNothingMoreAndWaitsForClaimedPages(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	job, release := s.hangingJob(t, nil)
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toCancel))
	s.stops(t, job, dlq.JobCancelling)

	release()
	_, err := s.client.AwaitJob(t.Context(), retryOf(job))
	require.ErrorIs(t, err, workflows.ErrStopped)
	bulk := s.bulk(t, job)
	require.Equal(t, dlq.JobCancelled, bulk.State)
	require.Equal(t, dlq.JobCounts{Retried: 4 * dlq.PageSize, Skipped: 1_000 - 4*dlq.PageSize}, bulk.Counts)
	require.Equal(t, map[dlq.Status]int64{dlq.StatusResolved: 4 * dlq.PageSize, dlq.StatusPending: 1_000 - 4*dlq.PageSize}, s.statuses(t))
	require.Equal(t, 4*dlq.PageSize, s.target.count())
	s.replays(t, "cancelled", execution(job))
}

func TestAPausingJobCanBeCancelled(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	job, release := s.hangingJob(t, nil)
	s.askToPause(t, job, "")
	s.stops(t, job, dlq.JobPausing)
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toCancel))
	s.stops(t, job, dlq.JobCancelling)
	release()
	_, err := s.client.AwaitJob(t.Context(), retryOf(job))
	require.ErrorIs(t, err, workflows.ErrStopped)
	require.Equal(t, dlq.JobCancelled, s.bulk(t, job).State)
}

func TestAPausingJobThatIsResumedRunsOnceItsPagesHaveEnded(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	job, release := s.hangingJob(t, nil)
	s.askToPause(t, job, "")
	s.stops(t, job, dlq.JobPausing)
	resumed := s.ask(t, job, workflows.UpdateResume)
	s.stops(t, job, dlq.JobPausing)
	release()
	require.NoError(t, resumed.Get(t.Context(), nil))
	s.sendsAll(t, job)
	for _, event := range s.replays(t, "resumed", execution(job)).GetEvents() {
		require.NotEqual(t, "PauseJob", event.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName(), "it never stood still")
	}
}

func TestAnOperatorsPauseOutweighsTheResultsOfThePages(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	job, release := s.hangingJob(t, refuse(dlq.CategoryAuth))
	paused := s.askToPause(t, job, "lunch")
	s.stops(t, job, dlq.JobPausing)
	release()
	require.NoError(t, paused.Get(t.Context(), nil))
	bulk := s.bulk(t, job)
	require.Equal(t, dlq.JobPaused, bulk.State)
	require.Equal(t, "lunch", bulk.Reason)
	require.EqualValues(t, 4*dlq.PageSize, bulk.Waiting)
	require.Equal(t, map[dlq.Status]int64{dlq.StatusPending: 1_000}, s.statuses(t))

	s.target.answers(nil)
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toResume))
	s.sendsAll(t, job)
	s.replays(t, "refused", execution(job))
}
