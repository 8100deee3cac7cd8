package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/converter"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

func (s *system) retry(t *testing.T, id dlq.ID) (workflows.RetryMessageResult, error) {
	t.Helper()
	execution, err := s.client.StartRetryMessage(t.Context(), nil, &dlq.Message{}, workflows.RetryMessageInput{MessageID: id})
	require.NoError(t, err)
	return s.client.AwaitRetryMessage(t.Context(), execution)
}

func TestRetriedMessageIsPublishedAndResolved(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	id := s.add(t, 1, 1)[0]
	result, err := s.retry(t, id)
	require.NoError(t, err)
	require.Equal(t, workflows.RetryMessageResult{
		MessageID: id, Status: dlq.StatusResolved, RetryCount: 1, MaxRetries: 3, Published: true,
	}, result)
	require.Equal(t, []dlq.ID{id}, []dlq.ID{s.target.taken[0].ID})
	message := s.message(t, id)
	require.Equal(t, dlq.StatusResolved, message.Status)
	require.Equal(t, workflows.RetryMessageID(id), message.Owner.WorkflowID)
	_, err = dlq.ParseID(message.Owner.Token)
	require.NoError(t, err)
}

func TestSecondCallJoinsTheRunningRetry(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	id := s.add(t, 1, 1)[0]
	publishing, goOn := make(chan struct{}), make(chan struct{})
	s.target.answers(func(dlq.Envelope) error { close(publishing); <-goOn; return nil })
	operations := []dlq.ID{dlq.NewID(), dlq.NewID()}
	for _, operation := range operations {
		require.NoError(t, s.store.RecordOperation(t.Context(), dlq.Operation{ID: operation, TargetID: id, Outcome: dlq.OperationAccepted}))
	}
	first, err := s.client.StartRetryMessage(t.Context(), nil, &dlq.Message{}, workflows.RetryMessageInput{MessageID: id, OperationID: operations[0]})
	require.NoError(t, err)
	require.False(t, first.Joined)
	<-publishing
	second, err := s.client.StartRetryMessage(t.Context(), nil, &dlq.Message{}, workflows.RetryMessageInput{MessageID: id, OperationID: operations[1]})
	require.NoError(t, err)
	require.Equal(t, workflows.Execution{WorkflowID: first.WorkflowID, RunID: first.RunID, Joined: true}, second)
	close(goOn)
	_, err = s.client.AwaitRetryMessage(t.Context(), second)
	require.NoError(t, err)
	require.Equal(t, 1, s.target.count())
	require.Equal(t, 1, s.message(t, id).RetryCount)
	named, err := s.store.OperationsOf(t.Context(), []dlq.ID{id}, []string{first.RunID})
	require.NoError(t, err)
	require.Equal(t, map[string]dlq.ID{first.RunID: operations[0]}, named)
}

func TestFailedRetriesEndDeadOnceTheyAreUsedUp(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	id := s.add(t, 1, 1)[0]
	s.target.answers(func(dlq.Envelope) error { return refuse(dlq.CategoryAuth) })
	for retry, want := range []dlq.Status{dlq.StatusPending, dlq.StatusPending, dlq.StatusDead} {
		result, err := s.retry(t, id)
		require.NoError(t, err)
		require.Equal(t, want, result.Status, "retry %d", retry+1)
		require.Equal(t, "refused: auth", result.Error)
	}
	_, err := s.retry(t, id)
	require.EqualError(t, err, "message is not retryable: status=DEAD, retry_count=3/3")
}

func TestRetryOfAnUnknownMessageIsNotFound(t *testing.T) {
	t.Parallel()
	_, err := newSystem(t).retry(t, dlq.NewID())
	require.ErrorIs(t, err, dlq.ErrNotFound)
}

func TestAwaitingEndsWithItsContextAndTheRetryContinues(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	id := s.add(t, 1, 1)[0]
	goOn := make(chan struct{})
	s.target.answers(func(dlq.Envelope) error { <-goOn; return nil })
	execution, err := s.client.StartRetryMessage(t.Context(), nil, &dlq.Message{}, workflows.RetryMessageInput{MessageID: id})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.client.AwaitRetryMessage(ctx, execution)
	require.ErrorIs(t, err, context.Canceled)
	close(goOn)
	result, err := s.client.AwaitRetryMessage(t.Context(), execution)
	require.NoError(t, err)
	require.Equal(t, dlq.StatusResolved, result.Status)
}

func TestCancelledRetryReleasesTheMessage(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	id := s.add(t, 1, 1)[0]
	tried := make(chan struct{}, 10)
	s.target.answers(func(dlq.Envelope) error { tried <- struct{}{}; return refuse(dlq.CategoryRateLimit) })
	execution, err := s.client.StartRetryMessage(t.Context(), nil, &dlq.Message{}, workflows.RetryMessageInput{MessageID: id})
	require.NoError(t, err)
	<-tried
	require.NoError(t, s.temporal.CancelWorkflow(t.Context(), execution.WorkflowID, execution.RunID))
	_, err = s.client.AwaitRetryMessage(t.Context(), execution)
	require.ErrorIs(t, err, workflows.ErrStopped)
	require.Equal(t, dlq.StatusPending, s.message(t, id).Status)
}

func TestMessageOfATerminatedRetryCanBeRetriedAtOnce(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	id := s.add(t, 1, 1)[0]
	s.terminateWhileRetrying(t, id)
	s.target.answers(nil)
	result, err := s.retry(t, id)
	require.NoError(t, err)
	require.Equal(t, dlq.StatusResolved, result.Status)
	require.Equal(t, 2, result.RetryCount, "both retries count")
}

func TestSweeperReleasesTheClaimOfATerminatedRetry(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	id := s.add(t, 1, 1)[0]
	s.terminateWhileRetrying(t, id)
	require.NoError(t, s.sweeper.Sweep(t.Context(), s.message(t, id).LastRetryAt.Add(time.Microsecond)))
	require.Equal(t, dlq.StatusPending, s.message(t, id).Status)
}

func TestSweeperIgnoresARunningRetry(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	id := s.add(t, 1, 1)[0]
	tried := make(chan struct{}, 10)
	s.target.answers(func(dlq.Envelope) error { tried <- struct{}{}; return refuse(dlq.CategoryRateLimit) })
	_, err := s.client.StartRetryMessage(t.Context(), nil, &dlq.Message{}, workflows.RetryMessageInput{MessageID: id})
	require.NoError(t, err)
	<-tried
	require.NoError(t, s.sweeper.Sweep(t.Context(), s.message(t, id).LastRetryAt.Add(time.Microsecond)))
	require.Equal(t, dlq.StatusRetrying, s.message(t, id).Status)
}

// terminateWhileRetrying leaves the message RETRYING with an owner whose workflow is gone.
func (s *system) terminateWhileRetrying(t *testing.T, id dlq.ID) {
	t.Helper()
	tried := make(chan struct{}, 10)
	s.target.answers(func(dlq.Envelope) error { tried <- struct{}{}; return refuse(dlq.CategoryRateLimit) })
	execution, err := s.client.StartRetryMessage(t.Context(), nil, &dlq.Message{}, workflows.RetryMessageInput{MessageID: id})
	require.NoError(t, err)
	<-tried
	require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), execution.WorkflowID, execution.RunID, "by hand"))
	_, err = s.client.AwaitRetryMessage(t.Context(), execution)
	require.ErrorIs(t, err, workflows.ErrStopped)
	require.Equal(t, dlq.StatusRetrying, s.message(t, id).Status)
}

// The Web UI shows a summary beside the workflow and beside each of its steps.
func TestEveryStepOfARetryHasASummary(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	id := s.add(t, 1, 1)[0]
	execution, err := s.client.StartRetryMessage(t.Context(), nil, &dlq.Message{}, workflows.RetryMessageInput{MessageID: id})
	require.NoError(t, err)
	var told []string
	for _, event := range s.history(t, execution, true).GetEvents() {
		if summary := event.GetUserMetadata().GetSummary(); summary != nil {
			var text string
			require.NoError(t, converter.GetDefaultDataConverter().FromPayload(summary, &text))
			told = append(told, text)
		}
	}
	require.Equal(t, []string{"retry message " + id.String(), "mark RETRYING", "republish to " + s.message(t, id).OriginalTopic, "finalize: delivered"}, told)
	described, err := s.temporal.DescribeWorkflowExecution(t.Context(), execution.WorkflowID, execution.RunID)
	require.NoError(t, err)
	require.LessOrEqual(t, described.GetWorkflowExecutionInfo().GetStateTransitionCount(), int64(9), "what a retry costs Temporal")
	var shown sdkpb.WorkflowMetadata
	s.query(t, execution, "__temporal_workflow_metadata", &shown)
	require.Equal(t, "**RESOLVED**: acknowledged by "+s.message(t, id).OriginalTopic+"[0] at offset 0.", shown.GetCurrentDetails())
}
