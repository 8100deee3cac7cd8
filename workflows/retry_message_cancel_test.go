package workflows_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"dlqmanager/activities"
	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
	"dlqmanager/workflows"
)

// claiming is a store whose claims can be delayed and can lose their answers.
type claiming struct {
	*postgres.Store
	claim func(claim func() (dlq.Claim, error)) (dlq.Claim, error)
}

func (c *claiming) Claim(ctx context.Context, id dlq.ID, owner dlq.Owner, operation dlq.ID) (dlq.Claim, error) {
	return c.claim(func() (dlq.Claim, error) { return c.Store.Claim(ctx, id, owner, operation) })
}

// lastRetry stores a message that has one retry left.
func (s *system) lastRetry(t *testing.T) dlq.ID {
	t.Helper()
	id := s.add(t, 1, 1)[0]
	for range dlq.DefaultMaxRetries - 1 {
		owner := dlq.Owner{WorkflowID: "earlier", Token: dlq.NewID().String()}
		_, err := s.store.Claim(t.Context(), id, owner, dlq.ID{})
		require.NoError(t, err)
		_, _, err = s.store.Finalize(t.Context(), owner, dlq.Outcome{ID: id, Result: dlq.ResultFailed, Category: dlq.CategoryAuth})
		require.NoError(t, err)
	}
	return id
}

func (s *system) startRetry(t *testing.T, id dlq.ID) workflows.Execution {
	t.Helper()
	execution, err := s.client.StartRetryMessage(t.Context(), nil, &dlq.Message{}, workflows.RetryMessageInput{MessageID: id})
	require.NoError(t, err)
	return execution
}

func (s *system) cancelRetry(t *testing.T, e workflows.Execution) {
	t.Helper()
	require.NoError(t, s.temporal.CancelWorkflow(t.Context(), e.WorkflowID, e.RunID))
}

// isReleased waits for the end of a cancelled retry and requires that the message is as before the retry.
func (s *system) isReleased(t *testing.T, e workflows.Execution, id dlq.ID) {
	t.Helper()
	_, err := s.client.AwaitRetryMessage(t.Context(), e)
	require.ErrorIs(t, err, workflows.ErrStopped)
	require.Contains(t, err.Error(), "canceled")
	message := s.message(t, id)
	require.Equal(t, dlq.StatusPending, message.Status)
	require.Equal(t, dlq.DefaultMaxRetries-1, message.RetryCount)
	detail, err := dlqtest.Detail(t.Context(), s.store, id)
	require.NoError(t, err)
	require.Len(t, detail.Attempts, dlq.DefaultMaxRetries-1)
	s.replays(t, "released", e)
}

func TestARetryCancelledDuringItsClaimIsNotCounted(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]error{"claimed": nil, "claimed without an answer": errors.New("connection reset")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startlessSystem(t)
			id := s.lastRetry(t)
			claimed, goOn := make(chan struct{}), make(chan struct{})
			tell := sync.OnceFunc(func() { close(claimed) }) // a claim that takes long is retried
			s.startOn(t, &claiming{Store: s.store, claim: func(claim func() (dlq.Claim, error)) (dlq.Claim, error) {
				envelope, err := claim()
				tell()
				<-goOn
				return envelope, errors.Join(err, lost)
			}})
			e := s.startRetry(t, id)
			<-claimed
			s.cancelRetry(t, e)
			eventually(t, "the worker has heard of it", func() bool { return s.hasTakenCancel(t, e) })
			close(goOn)
			s.isReleased(t, e, id)
			require.Zero(t, s.target.begun())
		})
	}
}

// hasTakenCancel is true once the workflow has answered a cancellation.
func (s *system) hasTakenCancel(t *testing.T, e workflows.Execution) bool {
	t.Helper()
	cancelled := false
	for _, event := range s.history(t, e, false).GetEvents() {
		cancelled = cancelled || event.GetWorkflowExecutionCancelRequestedEventAttributes() != nil
		if cancelled && event.GetWorkflowTaskCompletedEventAttributes() != nil {
			return true
		}
	}
	return false
}

func TestARetryCancelledWhileTheDatabaseIsUnavailableIsNotCounted(t *testing.T) {
	t.Parallel()
	s := startlessSystem(t)
	id := s.lastRetry(t)
	var tries atomic.Int32
	s.startOn(t, &claiming{Store: s.store, claim: func(claim func() (dlq.Claim, error)) (dlq.Claim, error) {
		_, _ = claim() // the claim commits, and its answer is lost
		tries.Add(1)
		return dlq.Claim{}, dlq.ErrUnavailable
	}})
	e := s.startRetry(t, id)
	eventually(t, "it is tried again", func() bool { return tries.Load() > 2 })
	s.cancelRetry(t, e)
	s.isReleased(t, e, id)
	s.replay(t, "retry_message_cancelled_claiming", e)
}

func TestARetryCancelledWhileItWaitsForItsTargetIsNotCounted(t *testing.T) {
	t.Parallel()
	for _, category := range []dlq.Category{dlq.CategoryTransient, dlq.CategoryRateLimit} {
		t.Run(string(category), func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			id := s.lastRetry(t)
			s.target.answers(func(dlq.Envelope) error { return refuse(category) })
			e := s.startRetry(t, id)
			eventually(t, "it is refused", func() bool { return s.target.begun() > 0 && s.isBetweenAttempts(t, e) })
			s.cancelRetry(t, e)
			s.isReleased(t, e, id)
		})
	}
}

// isBetweenAttempts is true while the workflow waits for a timer or for the next
// attempt of its activity.
func (s *system) isBetweenAttempts(t *testing.T, e workflows.Execution) bool {
	t.Helper()
	described, err := s.temporal.DescribeWorkflowExecution(t.Context(), e.WorkflowID, e.RunID)
	require.NoError(t, err)
	for _, activity := range described.GetPendingActivities() {
		return activity.GetAttempt() > 1 && activity.GetLastStartedTime().AsTime().Before(activity.GetScheduledTime().AsTime())
	}
	return s.waitsForTimer(t, e)
}

func TestACancelledRetryEndsWithTheResultOfItsPublish(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer error
		status dlq.Status
	}{
		"acknowledged": {nil, dlq.StatusResolved},
		"refused":      {refuse(dlq.CategoryAuth), dlq.StatusDead},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			id := s.lastRetry(t)
			publishing, goOn := make(chan struct{}), make(chan struct{})
			s.target.answers(func(dlq.Envelope) error { close(publishing); <-goOn; return c.answer })
			e := s.startRetry(t, id)
			<-publishing
			s.cancelRetry(t, e)
			eventually(t, "the worker has heard of it", func() bool { return s.hasTakenCancel(t, e) })
			close(goOn)
			_ = s.history(t, e, true)
			message := s.message(t, id)
			require.Equal(t, c.status, message.Status)
			require.Equal(t, dlq.DefaultMaxRetries, message.RetryCount)
		})
	}
}

// A refused claim has nothing to release, and returns the reason of the refusal.
func TestARefusedClaimStaysRefusedWhenItIsCancelled(t *testing.T) {
	t.Parallel()
	s := startlessSystem(t)
	id := s.add(t, 1, 1)[0]
	_, err := s.store.MarkDead(t.Context(), nil, id)
	require.NoError(t, err)
	var asked atomic.Int32
	goOn := make(chan struct{})
	s.startOn(t, &claiming{Store: s.store, claim: func(claim func() (dlq.Claim, error)) (dlq.Claim, error) {
		asked.Add(1)
		<-goOn
		return claim()
	}})
	e := s.startRetry(t, id)
	eventually(t, "the claim is an activity", func() bool { return asked.Load() == 2 })
	s.cancelRetry(t, e)
	eventually(t, "the worker has heard of it", func() bool { return s.hasTakenCancel(t, e) })
	close(goOn)
	_, err = s.client.AwaitRetryMessage(t.Context(), e)
	var refused *dlq.NotRetryableError
	require.ErrorAs(t, err, &refused)
}

// The message may be gone by the time of its release.
func TestACancelledRetryOfAMessageThatIsGoneIsCancelled(t *testing.T) {
	t.Parallel()
	env := quietSuite().NewTestWorkflowEnvironment()
	var steps *activities.Retry
	env.RegisterActivity(&activities.Retry{})
	env.OnActivity(steps.MarkRetrying, mock.Anything, mock.Anything).Return(dlq.Claim{}, errors.New("connection reset"))
	env.OnActivity(steps.Finalize, mock.Anything, mock.Anything).Return(activities.Finalized{},
		temporal.NewNonRetryableApplicationError("gone", activities.TypeNotFound, nil)).Once()
	env.RegisterDelayedCallback(env.CancelWorkflow, 100e6)
	env.ExecuteWorkflow(workflows.RetryMessage, workflows.RetryMessageInput{MessageID: dlq.NewID()})
	require.True(t, temporal.IsCanceledError(errors.Unwrap(env.GetWorkflowError())), env.GetWorkflowError())
	env.AssertExpectations(t)
}
