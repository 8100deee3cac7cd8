package workflows_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

// promptly is far more than a command takes.
const promptly = 10 * time.Second

// sendsAll requires that the job ends promptly and has delivered its thousand.
func (s *system) sendsAll(t *testing.T, job dlq.ID) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), promptly)
	defer cancel()
	result, err := s.client.AwaitRetryAll(ctx, job)
	require.NoError(t, err)
	require.Equal(t, dlq.BulkCounts{Retried: 1_000}, result.Bulk.Counts)
}

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

// hangingJob is a job of 1000 messages of which every lane hangs with a page.
func (s *system) hangingJob(t *testing.T, err error) (job dlq.ID, release func()) {
	t.Helper()
	s.add(t, 1_000, 100)
	release = s.hang(t, err)
	job = s.startAll(t)
	eventually(t, "every lane hangs", func() bool { return s.target.begun() == 4 })
	require.Equal(t, int64(4*dlq.PageSize), s.statuses(t)[dlq.StatusRetrying])
	return job, release
}

// leftBehind requires that the job took this step before any of its four lanes
// ended. As a step RunLane is a lane that was run anew. Temporal itself gives up
// a lane that was told to stop, after three seconds without a heartbeat.
func (s *system) leftBehind(t *testing.T, job dlq.ID, step string) {
	t.Helper()
	lanes := map[int64]bool{}
	for _, event := range s.history(t, execution(job), false).GetEvents() {
		switch name := event.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName(); {
		case name == step && len(lanes) == 4:
			return
		case name == "RunLane":
			lanes[event.GetEventId()] = true
		}
		ended := max(event.GetActivityTaskCompletedEventAttributes().GetScheduledEventId(),
			event.GetActivityTaskFailedEventAttributes().GetScheduledEventId(),
			event.GetActivityTaskTimedOutEventAttributes().GetScheduledEventId(),
			event.GetActivityTaskCanceledEventAttributes().GetScheduledEventId())
		require.False(t, lanes[ended], "a lane ended before %s: %s", step, event)
	}
	require.Fail(t, "the job has not come to "+step)
}

// pauseHanging pauses a job of hangingJob, and requires that it is paused while
// its publishes still hang.
func (s *system) pauseHanging(t *testing.T, job dlq.ID) {
	t.Helper()
	started := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), promptly)
	defer cancel()
	require.NoError(t, s.client.PauseRetryAll(ctx, job, "the broker hangs"))
	t.Logf("paused after %s", time.Since(started).Round(time.Millisecond))
	s.leftBehind(t, job, "PauseBulk")
	s.untouched(t, job, dlq.BulkPaused)
}

// untouched requires that the job is in this state and that nothing of it was
// retried.
func (s *system) untouched(t *testing.T, job dlq.ID, state dlq.BulkState) {
	t.Helper()
	bulk := s.bulk(t, job)
	require.Equal(t, state, bulk.State)
	require.Zero(t, bulk.Counts.Retried+bulk.Counts.Failed+bulk.Counts.Dead)
	require.Equal(t, map[dlq.Status]int64{dlq.StatusPending: 1_000}, s.statuses(t))
	s.retryCounts(t, 0)
}

func (s *system) retryCounts(t *testing.T, want int) {
	t.Helper()
	page, err := s.store.List(t.Context(), dlq.ListQuery{Filter: dlq.Filter{Topic: s.topic()}, PageSize: 1_000})
	require.NoError(t, err)
	require.Len(t, page.Messages, 1_000)
	for _, m := range page.Messages {
		require.Equal(t, want, m.RetryCount, m.ID)
	}
}

// attempts is how many activities of the workflow Temporal waits for.
func (s *system) attempts(t *testing.T, job dlq.ID) int {
	t.Helper()
	description, err := s.temporal.DescribeWorkflowExecution(t.Context(), workflows.RetryAllID(job), "")
	require.NoError(t, err)
	return len(description.GetPendingActivities())
}

func TestPauseDoesNotWaitForPublishesThatHang(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	job, release := s.hangingJob(t, nil)
	s.pauseHanging(t, job)

	release()
	eventually(t, "the target takes what hung", func() bool { return s.target.count() == 4*dlq.PageSize })
	eventually(t, "the lanes have ended", func() bool { return s.attempts(t, job) == 0 })
	s.untouched(t, job, dlq.BulkPaused)

	s.target.answers(nil)
	require.NoError(t, s.client.ResumeRetryAll(t.Context(), job))
	result, err := s.client.AwaitRetryAll(t.Context(), job)
	require.NoError(t, err)
	require.Equal(t, dlq.BulkCounts{Retried: 1_000}, result.Bulk.Counts)
	require.Equal(t, map[dlq.Status]int64{dlq.StatusResolved: 1_000}, s.statuses(t))
	s.retryCounts(t, 1)
	require.Equal(t, 1_000+4*dlq.PageSize, s.target.count(), "only what had hung was sent twice")
}

func TestCancelDoesNotWaitForPublishesThatHang(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	job, release := s.hangingJob(t, nil)
	started := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), promptly)
	defer cancel()
	require.NoError(t, s.client.CancelRetryAll(ctx, job))
	_, err := s.client.AwaitRetryAll(ctx, job)
	require.ErrorIs(t, err, workflows.ErrStopped)
	t.Logf("cancelled after %s", time.Since(started).Round(time.Millisecond))
	s.leftBehind(t, job, "EndBulk")
	s.untouched(t, job, dlq.BulkCancelled)
	bulk := s.bulk(t, job)
	require.Equal(t, bulk.Matched, bulk.Counts.Done())

	release()
	s.stop() // which waits for the lanes
	require.Equal(t, 4*dlq.PageSize, s.target.count(), "the target took what had hung")
	s.untouched(t, job, dlq.BulkCancelled)
	require.Equal(t, bulk.Counts, s.bulk(t, job).Counts)
	s.replays(t, "cancelled", execution(job))
}

func TestJobThatIsResumedWhilePublishesHangEndsWithoutThem(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	job, release := s.hangingJob(t, nil)
	s.pauseHanging(t, job)
	s.target.answers(nil)
	require.NoError(t, s.client.ResumeRetryAll(t.Context(), job))
	s.sendsAll(t, job)
	require.Equal(t, 1_000, s.target.count(), "the first publishes still hang")
	s.target.inOrder(t)

	release()
	s.stop() // which waits for the lanes
	require.Equal(t, 1_000+4*dlq.PageSize, s.target.count())
	require.Equal(t, dlq.BulkCounts{Retried: 1_000}, s.bulk(t, job).Counts)
	require.Equal(t, map[dlq.Status]int64{dlq.StatusResolved: 1_000}, s.statuses(t))
	s.retryCounts(t, 1)
	s.replays(t, "completed", execution(job))
}

// The pause does not come into force, so nobody takes the pages back: the new
// lanes find them claimed, and shut out those that hang.
func TestJobThatIsResumedBeforeItIsPausedSendsAnewWhatHangs(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	job, release := s.hangingJob(t, nil)
	goOn := s.hang(t, nil)
	// Accepted is not in force: that takes the lanes' grace, which is the time
	// that there is to resume.
	_, err := s.temporal.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: workflows.RetryAllID(job), UpdateName: workflows.UpdatePause,
		Args: []any{workflows.PauseUpdate{}}, WaitForStage: client.WorkflowUpdateStageAccepted,
	})
	require.NoError(t, err)
	require.NoError(t, s.client.ResumeRetryAll(t.Context(), job))
	eventually(t, "each new lane sends the page that hangs", func() bool { return s.target.begun() == 8 })
	s.leftBehind(t, job, "RunLane")
	claimed := map[dlq.Status]int64{dlq.StatusRetrying: 4 * dlq.PageSize, dlq.StatusPending: 1_000 - 4*dlq.PageSize}
	require.Equal(t, claimed, s.statuses(t))

	release()
	eventually(t, "the target takes what hung", func() bool { return s.target.count() == 4*dlq.PageSize })
	eventually(t, "the first lanes have ended", func() bool { return s.attempts(t, job) == 4 })
	require.Equal(t, claimed, s.statuses(t), "the first lanes can finish nothing")
	bulk := s.bulk(t, job)
	require.Equal(t, dlq.BulkRunning, bulk.State)
	require.Zero(t, bulk.Counts)

	goOn()
	s.sendsAll(t, job)
	require.Equal(t, map[dlq.Status]int64{dlq.StatusResolved: 1_000}, s.statuses(t))
	s.retryCounts(t, 1)
	require.Equal(t, 1_000+4*dlq.PageSize, s.target.count(), "only what had hung was sent twice")
	for _, event := range s.replays(t, "resumed", execution(job)).GetEvents() {
		require.NotEqual(t, "PauseBulk", event.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName(), "resumed too late")
	}
}

// The lanes that hung end as refused, which, of lanes that are the job's own,
// would make it pause itself.
func TestRefusalsThatCameTooLateForAPauseAreNotHeard(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	job, release := s.hangingJob(t, refuse(dlq.CategoryAuth))
	s.pauseHanging(t, job)
	goOn := s.hang(t, nil)
	require.NoError(t, s.client.ResumeRetryAll(t.Context(), job))
	eventually(t, "the new lanes are at work", func() bool { return s.statuses(t)[dlq.StatusRetrying] == 4*dlq.PageSize })
	release()
	eventually(t, "the first lanes have ended", func() bool { return s.attempts(t, job) == 4 })
	require.Equal(t, map[dlq.Status]int64{dlq.StatusRetrying: 4 * dlq.PageSize, dlq.StatusPending: 600}, s.statuses(t))
	bulk := s.bulk(t, job)
	require.Equal(t, dlq.BulkRunning, bulk.State)
	require.Empty(t, bulk.Reason)

	goOn()
	s.sendsAll(t, job)
	require.Equal(t, 1_000, s.target.count(), "nothing was sent twice")
	s.retryCounts(t, 1)
	for _, event := range s.replays(t, "refused", execution(job)).GetEvents() {
		require.NotEqual(t, "NoteLane", event.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName())
	}
}
