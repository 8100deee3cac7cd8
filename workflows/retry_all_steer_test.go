package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"

	"dlqmanager/dlq"
	"dlqmanager/store/postgres"
	"dlqmanager/workflows"
)

func TestPausedRetryAllSendsNothingUntilItIsResumed(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 10_000, 100)
	s.target.slowly(40 * time.Millisecond)
	job := s.startAll(t)
	eventually(t, "some are sent", func() bool { return s.target.count() > 500 })

	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toPause("the consumer is being fixed")))
	bulk := s.bulk(t, job)
	require.Equal(t, dlq.JobPaused, bulk.State)
	require.Equal(t, "the consumer is being fixed", bulk.Reason)
	sent := s.target.count()
	require.Less(t, sent, 10_000)
	require.Zero(t, s.statuses(t)[dlq.StatusRetrying])
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toPause("twice does no harm")))
	require.Equal(t, sent, s.target.count())

	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toResume))
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toResume))
	s.target.slowly(0)
	result, err := s.client.AwaitJob(t.Context(), retryOf(job))
	require.NoError(t, err)
	require.Equal(t, dlq.JobCounts{Retried: 10_000}, result.Job.Counts)
	require.Equal(t, 10_000, s.target.count(), "nothing was sent twice")
	s.target.inOrder(t)
}

func TestAPauseThatTheDatabaseForgotIsSetAgain(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 1_000, 100)
	job := s.startAll(t, func(spec *dlq.JobSpec) { spec.RateLimit = 10 })
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toPause("the consumer is being fixed")))

	_, err := s.store.ResumeJob(t.Context(), nil, job) // as after a restore to an earlier moment
	require.NoError(t, err)
	eventually(t, "it is paused again", func() bool { return s.state(job) == dlq.JobPaused })
	require.Equal(t, "the consumer is being fixed", s.bulk(t, job).Reason)

	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toLimit(0)))
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toResume))
	result, err := s.client.AwaitJob(t.Context(), retryOf(job))
	require.NoError(t, err)
	require.Equal(t, int64(1_000), result.Job.Counts.Retried)
}

// endless is a store whose count runs until it is cancelled.
type endless struct {
	*postgres.Store
	began chan struct{}
}

func (e *endless) CountJob(ctx context.Context, _ dlq.ID) (dlq.Job, error) {
	e.began <- struct{}{}
	<-ctx.Done()
	return dlq.Job{}, ctx.Err()
}

func TestAJobThatIsCountedCanBeCancelled(t *testing.T) {
	t.Parallel()
	s := startlessSystem(t)
	store := &endless{s.store, make(chan struct{}, 1)}
	s.jobs = store
	s.start(t)
	s.add(t, 5, 5)
	job := s.startAll(t)
	<-store.began
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toCancel))
	_, err := s.client.AwaitJob(t.Context(), retryOf(job))
	require.ErrorIs(t, err, workflows.ErrStopped)
	require.Equal(t, dlq.JobCancelled, s.bulk(t, job).State)
	s.stop() // stop waits for the count
	s.replays(t, "cancelled", execution(job))
}

// gated is a store whose counts wait for the gate.
type gated struct {
	*postgres.Store
	began, gate chan struct{}
}

func (g *gated) wait() {
	g.began <- struct{}{}
	<-g.gate
}

func (g *gated) CountJob(ctx context.Context, id dlq.ID) (dlq.Job, error) {
	g.wait()
	return g.Store.CountJob(ctx, id)
}

func TestTheWaitForTheCountEndsWithTheCount(t *testing.T) {
	t.Parallel()
	s := startlessSystem(t)
	store := &gated{s.store, make(chan struct{}), make(chan struct{})}
	s.jobs = store
	s.start(t)
	s.add(t, 5, 5)
	job := s.startAll(t, func(spec *dlq.JobSpec) { spec.RateLimit = 1 }) // the job still runs after the count
	<-store.began
	waited := make(chan error, 1)
	go func() { waited <- s.client.AwaitCount(t.Context(), workflows.JobWorkflowID(dlq.KindRetry, job)) }()
	close(store.gate)
	require.NoError(t, <-waited)
	require.False(t, s.bulk(t, job).Counting)
	require.EqualValues(t, 5, s.bulk(t, job).Matched)
	require.NoError(t, s.client.AwaitCount(t.Context(), workflows.JobWorkflowID(dlq.KindRetry, job)), "it is counted already")

	action := s.startAction(t, dlq.KindDead)
	go func() { waited <- s.client.AwaitCount(t.Context(), workflows.JobWorkflowID(dlq.KindDead, action)) }()
	<-store.began
	require.NoError(t, <-waited)
	require.False(t, s.action(t, action).Counting)
	require.ErrorIs(t, s.client.AwaitCount(t.Context(), workflows.JobWorkflowID(dlq.KindRetry, dlq.NewID())), dlq.ErrNotFound)
}

func TestTheWaitForTheCountEndsWithTheJobOrTheCaller(t *testing.T) {
	t.Parallel()
	s := startlessSystem(t)
	store := &endless{s.store, make(chan struct{}, 1)}
	s.jobs = store
	s.start(t)
	s.add(t, 5, 5)
	job := s.startAll(t)
	<-store.began
	gone, leave := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() { waited <- s.client.AwaitCount(gone, workflows.JobWorkflowID(dlq.KindRetry, job)) }()
	leave()
	require.ErrorIs(t, <-waited, context.Canceled)
	go func() { waited <- s.client.AwaitCount(t.Context(), workflows.JobWorkflowID(dlq.KindRetry, job)) }()
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toCancel))
	require.NoError(t, <-waited)
}

func TestPausedRetryAllCanBeCancelled(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 5_000, 100)
	s.target.slowly(100 * time.Millisecond)
	job := s.startAll(t)
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toPause("")))
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toCancel))
	_, err := s.client.AwaitJob(t.Context(), retryOf(job))
	require.ErrorIs(t, err, workflows.ErrStopped)
	bulk := s.bulk(t, job)
	require.Equal(t, dlq.JobCancelled, bulk.State)
	require.Equal(t, bulk.Matched, bulk.Counts.Done())
}

func TestCommandsToAJobThatHasEndedAreNotFound(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 1, 1)
	job := s.startAll(t)
	_, err := s.client.AwaitJob(t.Context(), retryOf(job))
	require.NoError(t, err)
	require.ErrorIs(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toPause("")), dlq.ErrNotFound)
	require.ErrorIs(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toResume), dlq.ErrNotFound)
	require.ErrorIs(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toLimit(5)), dlq.ErrNotFound)
	require.ErrorIs(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toCancel), dlq.ErrNotFound)
}

func TestRateLimitHoldsOverAllLanesAndCanBeChanged(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 5_000, 100)
	job := s.startAll(t, func(spec *dlq.JobSpec) { spec.RateLimit = 200 })
	eventually(t, "it sends", func() bool { return s.target.count() > 20 })
	from, started := s.target.count(), time.Now()
	eventually(t, "two seconds' worth", func() bool { return s.target.count() >= from+400 })
	require.Greater(t, time.Since(started), 1600*time.Millisecond) // a benchmark measures the accuracy

	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toLimit(0)))
	result, err := s.client.AwaitJob(t.Context(), retryOf(job))
	require.NoError(t, err)
	require.Equal(t, int64(5_000), result.Job.Counts.Retried)
}

func TestRampSendsAFewAndPausesWhenTooManyComeBack(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 500, 500)
	// The consumer fails on every message, so all come back at once.
	s.target.answers(func(e dlq.Envelope) error {
		s.comeBack(t, e)
		return nil
	})
	job := s.startAll(t, func(spec *dlq.JobSpec) {
		spec.Ramp = &dlq.Ramp{Steps: []int{1, 10, 100}, Wait: 50 * time.Millisecond, MaxCameBack: 0.1}
	})
	eventually(t, "it pauses itself", func() bool { return s.state(job) == dlq.JobPaused })
	bulk := s.bulk(t, job)
	require.Contains(t, bulk.Reason, "1 of 1 messages came back after step 1")
	require.Equal(t, int64(1), bulk.CameBack)
	require.Equal(t, 1, s.target.count())

	s.target.answers(nil)
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toResume))
	result, err := s.client.AwaitJob(t.Context(), retryOf(job))
	require.NoError(t, err)
	require.Equal(t, int64(500), result.Job.Counts.Retried)
	require.Equal(t, int64(1), result.Job.CameBack)
	require.Equal(t, int64(1), s.statuses(t)[dlq.StatusPending], "a message that came back is not sent again")
}

func TestRampTakesItsSteps(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 300, 300)
	job := s.startAll(t, func(spec *dlq.JobSpec) {
		spec.Ramp = &dlq.Ramp{Steps: []int{3, 20}, Wait: 400 * time.Millisecond, MaxCameBack: 0}
	})
	seen := map[int]bool{}
	eventually(t, "all are sent", func() bool {
		seen[s.target.count()] = true
		return s.state(job) == dlq.JobCompleted
	})
	require.True(t, seen[3], "the first step: %v", seen)
	require.True(t, seen[23], "and the second: %v", seen)
	require.True(t, seen[300])
}

func TestAFailedMessageBlocksTheLaterOnesOfItsKey(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ids := s.add(t, 600, 3)
	s.target.answers(func(e dlq.Envelope) error {
		if e.ID == ids[30] { // of key-0
			return refuse(dlq.CategoryBadData)
		}
		return nil
	})
	result, err := s.client.AwaitJob(t.Context(), retryOf(s.startAll(t)))
	require.NoError(t, err)
	require.Equal(t, dlq.JobCounts{Retried: 410, Dead: 1, Skipped: 189}, result.Job.Counts)
	require.Equal(t, map[dlq.Status]int64{dlq.StatusResolved: 410, dlq.StatusDead: 1, dlq.StatusPending: 189}, s.statuses(t))
	require.Zero(t, s.message(t, ids[33]).RetryCount, "a blocked message is not tried")
	s.target.inOrder(t)
}

func TestOrderNoneSendsTheLaterMessagesOfAFailedMessagesKey(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ids := s.add(t, 600, 3)
	s.target.answers(func(e dlq.Envelope) error {
		if e.ID == ids[30] {
			return refuse(dlq.CategoryBadData)
		}
		return nil
	})
	result, err := s.client.AwaitJob(t.Context(), retryOf(s.startAll(t, func(spec *dlq.JobSpec) { spec.Order = dlq.OrderNone })))
	require.NoError(t, err)
	require.Equal(t, dlq.JobCounts{Retried: 599, Dead: 1}, result.Job.Counts)
}

func TestRetryAllSendsOnlyMessagesThatItsFilterMatches(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ids := s.add(t, 40, 4)
	result, err := s.client.AwaitJob(t.Context(), retryOf(s.startAll(t, func(spec *dlq.JobSpec) { spec.Key = []byte("key-1") })))
	require.NoError(t, err)
	require.Equal(t, int64(10), result.Job.Counts.Retried)
	result, err = s.client.AwaitJob(t.Context(), retryOf(s.startAll(t, func(spec *dlq.JobSpec) { spec.IDs = []dlq.ID{ids[0], ids[2]} })))
	require.NoError(t, err)
	require.Equal(t, int64(2), result.Job.Counts.Retried)
	require.Equal(t, dlq.StatusResolved, s.message(t, ids[2]).Status)
}

func TestAuthorisationRefusedPausesUntilAnOperatorResumes(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 250, 1)
	var refusals atomic.Int64
	s.target.answers(func(dlq.Envelope) error { refusals.Add(1); return refuse(dlq.CategoryAuth) })
	job := s.startAll(t)
	eventually(t, "it pauses itself", func() bool { return s.state(job) == dlq.JobPaused })
	require.Contains(t, s.bulk(t, job).Reason, "resume")
	require.LessOrEqual(t, refusals.Load(), int64(2*dlq.PageSize), "it does not try page after page")
	require.Equal(t, map[dlq.Status]int64{dlq.StatusPending: 250}, s.statuses(t))
	s.target.answers(nil)
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toResume))
	result, err := s.client.AwaitJob(t.Context(), retryOf(job))
	require.NoError(t, err)
	require.Equal(t, dlq.JobCounts{Retried: 250}, result.Job.Counts)
	s.target.inOrder(t)
}

// comeBack stores the dead letter of a republished message that failed again.
func (s *system) comeBack(t *testing.T, e dlq.Envelope) {
	t.Helper()
	_, err := s.store.Ingest(t.Context(), []dlq.Arrival{{
		ID: dlq.NewID(), DLQTopic: s.topic(), Source: dlq.Source{TopicID: [16]byte(dlq.NewID())},
		Failure: dlq.Failure{Origin: dlq.Origin{Topic: s.queue}, ErrorMessage: "failed again"}, Record: e.Record,
		MaxRetries: dlq.DefaultMaxRetries, RetryCount: e.RetryCount, PreviousID: e.ID,
	}}, nil)
	if err != nil {
		t.Errorf("come back: %v", err)
	}
}

func TestOneClosedTargetAmongSeveralDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 300, 30)
	gone := s.queue + ".gone"
	arrivals := make([]dlq.Arrival, 200)
	for i := range arrivals {
		arrivals[i] = dlq.Arrival{
			ID: dlq.NewID(), DLQTopic: s.topic(), Source: dlq.Source{TopicID: [16]byte(dlq.NewID())},
			Failure: dlq.Failure{Origin: dlq.Origin{Topic: gone}, ErrorMessage: "x"}, Record: dlq.Record{Key: []byte("one")}, MaxRetries: 3,
		}
	}
	_, err := s.store.Ingest(t.Context(), arrivals, nil)
	require.NoError(t, err)
	s.add(t, 300, 30)
	s.target.answers(func(e dlq.Envelope) error {
		if e.OriginalTopic == gone {
			return &dlq.DeliveryError{Category: dlq.CategoryTransient, TargetOnly: true, Err: errors.New("unknown topic")}
		}
		return nil
	})
	job := s.startAll(t)
	eventually(t, "the others are sent, and the job waits", func() bool {
		bulk := s.bulk(t, job)
		return bulk.Counts == (dlq.JobCounts{Retried: 600}) && bulk.Waiting == 200 && bulk.State == dlq.JobPaused
	})
	require.Contains(t, s.bulk(t, job).Reason, "unknown topic")
	require.Zero(t, s.message(t, arrivals[0].ID).RetryCount, "none of them is counted")
	s.target.answers(nil)
	result, err := s.client.AwaitJob(t.Context(), retryOf(job))
	require.NoError(t, err)
	require.Equal(t, dlq.JobCounts{Retried: 800}, result.Job.Counts)
	s.target.inOrder(t)
}

// The REST API shows the job's row, so the row is compared.
func TestProgressIsTheSameInTheRowTheQueryAndTheWebUI(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 2_000, 100)
	s.target.slowly(20 * time.Millisecond)
	job := s.startAll(t)
	requireSame := func(sentence string) {
		t.Helper()
		var asked dlq.Job
		s.query(t, execution(job), workflows.QueryProgress, &asked)
		row := s.bulk(t, job)
		row.RecentPerSecond, asked.RecentPerSecond = 0, 0 // the rate decreases with time
		row.UpdatedAt, asked.UpdatedAt = time.Time{}, time.Time{}
		require.Equal(t, row, asked)
		var shown sdkpb.WorkflowMetadata
		s.query(t, execution(job), "__temporal_workflow_metadata", &shown)
		require.Contains(t, shown.GetCurrentDetails(), fmt.Sprintf("**%s** %s: %d of %d done, %d retried, 0 failed, 0 dead, 0 skipped, 0 came back.",
			row.State, s.topic(), row.Counts.Done(), row.Matched, row.Counts.Retried))
		require.Contains(t, shown.GetCurrentDetails(), sentence)
	}
	eventually(t, "some are sent", func() bool { return s.target.count() > 100 })
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toPause("the consumer is being fixed")))
	requireSame("the consumer is being fixed")

	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toResume))
	s.target.slowly(0)
	result, err := s.client.AwaitJob(t.Context(), retryOf(job))
	require.NoError(t, err)
	require.Equal(t, dlq.JobCounts{Retried: 2_000}, result.Job.Counts)
	requireSame("2000 of 2000 done")
}

// query asks a workflow for something, and decodes the answer.
func (s *system) query(t *testing.T, e workflows.Execution, what string, answer any) {
	t.Helper()
	value, err := s.temporal.QueryWorkflow(t.Context(), e.WorkflowID, e.RunID, what)
	require.NoError(t, err)
	require.NoError(t, value.Get(answer))
}
