package workflows

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"dlqmanager/dlq"
)

// StartRetryAll starts the workflow of a bulk retry that the store has created, or joins
// that workflow. A job has a single workflow, which runs once. The error is dlq.ErrNotFound when
// the workflow has closed.
func (c *Client) StartRetryAll(ctx context.Context, bulk dlq.BulkRetry) (Execution, error) {
	options := c.startOptions(RetryAllID(bulk.ID), "retry all of "+bulk.Spec.Topic)
	c.describe(ctx, &options, &subject{topic: bulk.Spec.Topic, group: bulk.Spec.Group,
		path: "/api/v1/bulk-retries/" + bulk.ID.String(), reason: bulk.Spec.Reason})
	return c.startOnce(ctx, options, RetryAllType, RetryAllInput{ID: bulk.ID})
}

// startOnce starts or joins the only workflow of a job. The error is dlq.ErrNotFound when the
// workflow has closed.
func (c *Client) startOnce(ctx context.Context, options client.StartWorkflowOptions, workflowType string, in any) (Execution, error) {
	options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
	options.WorkflowExecutionErrorWhenAlreadyStarted = true // when the workflow has closed; a running workflow is joined
	run, err := c.execute(ctx, options, workflowType, in)
	var closed *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &closed) {
		return Execution{}, fmt.Errorf("workflow: %w", dlq.ErrNotFound)
	}
	return executionOf(run), toDomain(ctx, err)
}

// AwaitRetryAll waits for the end of a bulk retry, or returns the error of ctx if that
// ends first.
func (c *Client) AwaitRetryAll(ctx context.Context, id dlq.ID) (RetryAllResult, error) {
	var result RetryAllResult
	err := c.temporal.GetWorkflow(ctx, RetryAllID(id), "").Get(ctx, &result)
	return result, toDomain(ctx, err)
}

// CancelRetryAll asks a bulk retry to stop, without a wait until the lanes have finished
// their pages. The error is dlq.ErrNotFound when the workflow does not run.
func (c *Client) CancelRetryAll(ctx context.Context, id dlq.ID) error {
	return c.cancel(ctx, RetryAllID(id))
}

// PauseRetryAll pauses a bulk retry and returns once no message of it is RETRYING.
// The error is dlq.ErrNotFound when its workflow does not run.
func (c *Client) PauseRetryAll(ctx context.Context, id dlq.ID, reason string) error {
	return c.update(ctx, id, UpdatePause, PauseUpdate{Reason: reason})
}

// ResumeRetryAll resumes a paused bulk retry, whatever the reason of the pause. It returns
// dlq.ErrNotFound when its workflow does not run.
func (c *Client) ResumeRetryAll(ctx context.Context, id dlq.ID) error {
	return c.update(ctx, id, UpdateResume)
}

// SetRetryAllRate changes the rate limit of a bulk retry, in messages per
// second; 0 lifts the limit. The error is dlq.ErrNotFound when its workflow does not run.
func (c *Client) SetRetryAllRate(ctx context.Context, id dlq.ID, perSecond int) error {
	return c.update(ctx, id, UpdateSetRate, RateUpdate{PerSecond: &perSecond})
}

// update sends a command and waits for its effect. The error is dlq.ErrUnavailable when no
// worker handles the command before ctx ends. The command may still take effect later.
func (c *Client) update(ctx context.Context, id dlq.ID, name string, args ...any) error {
	// The job finds the command in the audit by the id of the update; see activities.Bulk. Without
	// an operation the SDK chooses the id.
	var updateID string
	if o, _ := dlq.OperationOf(ctx); !o.ID.IsZero() {
		updateID = o.ID.String()
	}
	handle, err := c.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		UpdateID: updateID, WorkflowID: RetryAllID(id), UpdateName: name, Args: args, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, nil)
	}
	var (
		application *temporal.ApplicationError
		timedOut    *client.WorkflowUpdateServiceTimeoutOrCanceledError
	)
	switch {
	case err == nil:
		return nil
	case temporal.IsCanceledError(err): // the job was cancelled meanwhile
		return fmt.Errorf("workflow: %w", dlq.ErrNotFound)
	case errors.As(err, &application) && (application.Type() == typeEnded || application.Type() == acceptedUpdateLost):
		return fmt.Errorf("workflow: %w", dlq.ErrNotFound)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: no worker has handled the command in time: %w", dlq.ErrUnavailable, ctx.Err())
	case errors.As(err, &timedOut): // the server's timer was ahead of ctx
		return fmt.Errorf("%w: no worker has handled the command in time: %w", dlq.ErrUnavailable, context.DeadlineExceeded)
	default:
		return toDomain(ctx, err)
	}
}

// acceptedUpdateLost is the server's error type for an update whose workflow closed before
// an answer.
const acceptedUpdateLost = "AcceptedUpdateCompletedWorkflow"
