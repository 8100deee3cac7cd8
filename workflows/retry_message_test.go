package workflows_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"dlqmanager/activities"
	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

// refusal is how an activity reports a delivery error of the category.
func refusal(category dlq.Category, retryAfter time.Duration) error {
	return temporal.NewApplicationErrorWithOptions("refused", string(category), temporal.ApplicationErrorOptions{
		NonRetryable: category != dlq.CategoryTransient, Details: []any{retryAfter},
	})
}

func quietSuite() *testsuite.WorkflowTestSuite {
	suite := new(testsuite.WorkflowTestSuite)
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	return suite
}

// retryEnv runs RetryMessage with a scripted publisher, and keeps the recorded outcome.
type retryEnv struct {
	*testsuite.TestWorkflowEnvironment
	publishes int
	final     activities.FinalizeInput
}

func newRetryEnv(t *testing.T, publish func(attempt int) (activities.Republished, error)) *retryEnv {
	t.Helper()
	suite := quietSuite()
	env := &retryEnv{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment()}
	var steps *activities.Retry
	env.RegisterActivity(&activities.Retry{})
	env.OnActivity(steps.MarkRetrying, mock.Anything, mock.Anything).
		Return(dlq.Claim{OriginalTopic: "orders.v1", RetryCount: 1, MaxRetries: 3}, nil).Maybe()
	env.OnActivity(steps.Republish, mock.Anything, mock.Anything).
		Return(func(context.Context, activities.RetryInput) (activities.Republished, error) {
			env.publishes++
			return publish(env.publishes)
		}).Maybe()
	env.OnActivity(steps.Finalize, mock.Anything, mock.Anything).
		Return(func(_ context.Context, in activities.FinalizeInput) (activities.Finalized, error) {
			env.final = in
			status, count := in.Outcome.Result.After(1, 3)
			return activities.Finalized{Status: status, RetryCount: count, MaxRetries: 3}, nil
		}).Maybe()
	return env
}

func (e *retryEnv) run(t *testing.T) workflows.RetryMessageResult {
	t.Helper()
	e.ExecuteWorkflow(workflows.RetryMessage, workflows.RetryMessageInput{MessageID: dlq.NewID()})
	require.True(t, e.IsWorkflowCompleted())
	require.NoError(t, e.GetWorkflowError())
	var result workflows.RetryMessageResult
	require.NoError(t, e.GetWorkflowResult(&result))
	return result
}

func TestRetryMessageResolvesAnAcknowledgedMessage(t *testing.T) {
	t.Parallel()
	at := &dlq.Acknowledgement{Partition: 3, Offset: 17}
	env := newRetryEnv(t, func(int) (activities.Republished, error) { return activities.Republished{Published: true, At: at}, nil })
	result := env.run(t)
	require.Equal(t, dlq.StatusResolved, result.Status)
	require.True(t, result.Published)
	require.Empty(t, result.Error)
	require.Equal(t, 1, env.publishes)
	require.NotEmpty(t, env.final.Owner.WorkflowID)
	require.Equal(t, at, env.final.Outcome.Acknowledgement)
}

func TestRetryMessageSaysThatNothingWasPublishedWithoutKafka(t *testing.T) {
	t.Parallel()
	result := newRetryEnv(t, func(int) (activities.Republished, error) { return activities.Republished{}, nil }).run(t)
	require.Equal(t, dlq.StatusResolved, result.Status)
	require.False(t, result.Published)
}

func TestRetryMessageFollowsThePolicyOfTheErrorsCategory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		category dlq.Category
		attempts int
		waited   time.Duration
		status   dlq.Status
	}{
		{dlq.CategoryTransient, 10, 511 * time.Second, dlq.StatusPending},
		{dlq.CategoryRateLimit, 3, 20 * time.Second, dlq.StatusPending},
		{dlq.CategoryAuth, 1, 0, dlq.StatusPending},
		{dlq.CategoryBadData, 1, 0, dlq.StatusDead},
	} {
		t.Run(string(c.category), func(t *testing.T) {
			t.Parallel()
			env := newRetryEnv(t, func(int) (activities.Republished, error) { return activities.Republished{}, refusal(c.category, 0) })
			start := env.Now()
			result := env.run(t)
			require.Equal(t, c.attempts, env.publishes)
			require.Equal(t, c.status, result.Status)
			require.Equal(t, c.category, result.Category)
			require.Equal(t, "refused", result.Error)
			require.InDelta(t, c.waited.Seconds(), env.Now().Sub(start).Seconds(), 2)
		})
	}
}

func TestRetryMessageWaitsAsLongAsAThrottledTargetAsks(t *testing.T) {
	t.Parallel()
	env := newRetryEnv(t, func(attempt int) (activities.Republished, error) {
		if attempt == 1 {
			return activities.Republished{}, refusal(dlq.CategoryRateLimit, time.Minute)
		}
		return activities.Republished{Published: true}, nil
	})
	start := env.Now()
	require.Equal(t, dlq.StatusResolved, env.run(t).Status)
	require.GreaterOrEqual(t, env.Now().Sub(start), time.Minute)
}

func TestRetryMessageRecoversFromATransientError(t *testing.T) {
	t.Parallel()
	env := newRetryEnv(t, func(attempt int) (activities.Republished, error) {
		if attempt < 4 {
			return activities.Republished{}, refusal(dlq.CategoryTransient, 0)
		}
		return activities.Republished{Published: true}, nil
	})
	require.Equal(t, dlq.StatusResolved, env.run(t).Status)
	require.Equal(t, 4, env.publishes)
}

func TestRetryMessageReleasesTheMessageWhenCancelled(t *testing.T) {
	t.Parallel()
	env := newRetryEnv(t, func(int) (activities.Republished, error) {
		return activities.Republished{}, refusal(dlq.CategoryRateLimit, time.Hour)
	})
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Minute)
	env.ExecuteWorkflow(workflows.RetryMessage, workflows.RetryMessageInput{MessageID: dlq.NewID()})
	require.True(t, temporal.IsCanceledError(errors.Unwrap(env.GetWorkflowError())))
	require.Equal(t, dlq.ResultReleased, env.final.Outcome.Result)
	require.Equal(t, "the retry was cancelled", env.final.Outcome.Error)
}

func TestRetryMessageFailsWithTheReasonWhenThereIsNothingToRetry(t *testing.T) {
	t.Parallel()
	suite := quietSuite()
	env := suite.NewTestWorkflowEnvironment()
	var steps *activities.Retry
	env.RegisterActivity(&activities.Retry{})
	refused := &dlq.NotRetryableError{Status: dlq.StatusDead, RetryCount: 3, MaxRetries: 3}
	env.OnActivity(steps.MarkRetrying, mock.Anything, mock.Anything).Return(dlq.Claim{},
		temporal.NewApplicationErrorWithOptions(refused.Error(), activities.TypeNotRetryable,
			temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{refused}}))
	env.ExecuteWorkflow(workflows.RetryMessage, workflows.RetryMessageInput{MessageID: dlq.NewID()})
	require.EqualError(t, activities.FromTemporal(env.GetWorkflowError()),
		"message is not retryable: status=DEAD, retry_count=3/3")
}
