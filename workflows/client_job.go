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

// StartJob starts the workflow of a job that the store has created, or joins
// that workflow. A job has a single workflow, which runs once. The error is dlq.ErrNotFound when
// the workflow has closed.
func (c *Client) StartJob(ctx context.Context, asked *dlq.Operation, j dlq.Job) (Execution, error) {
	workflowType, summary := RetryAllType, "retry all of "+j.Spec.Topic
	if j.Spec.Kind != dlq.KindRetry {
		workflowType, summary = ChangeAllType, fmt.Sprintf("%s messages of %s", j.Spec.Kind, j.Spec.Topic)
	}
	about := subject{
		topic: j.Spec.Topic, group: j.Spec.Group, page: c.options.Pages.Job(j.ID), path: "/api/v1/jobs/" + j.ID.String(), reason: j.Spec.Reason,
	}
	started, err := c.start(ctx, asked, &about, client.StartWorkflowOptions{
		ID: j.WorkflowID, StaticSummary: summary,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING, // joins a running workflow
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
	}, workflowType, JobInput{ID: j.ID})
	if errors.As(err, new(*serviceerror.WorkflowExecutionAlreadyStarted)) { // the workflow has closed
		return Execution{}, errNotFound
	}
	return started, err
}

// AwaitJob waits for the end of a job, or returns the error of ctx if ctx ends first.
func (c *Client) AwaitJob(ctx context.Context, j dlq.Job) (JobResult, error) {
	var result JobResult
	err := c.temporal.GetWorkflow(ctx, j.WorkflowID, "").Get(ctx, &result)
	return result, toDomain(ctx, err)
}

// SteerJob sends a command to a job. A pause returns once no message of the job is RETRYING; a cancellation does not wait
// until the lanes have finished their pages. The error is dlq.ErrNotFound when the workflow does not run.
func (c *Client) SteerJob(ctx context.Context, asked *dlq.Operation, j dlq.Job, command dlq.Command) error {
	switch command.Name {
	case dlq.CommandPause:
		return c.update(ctx, asked, j.ID, UpdatePause, PauseUpdate{Reason: command.Reason})
	case dlq.CommandResume:
		return c.update(ctx, asked, j.ID, UpdateResume)
	case dlq.CommandRate:
		return c.update(ctx, asked, j.ID, UpdateSetRate, RateUpdate{PerSecond: command.RateLimit})
	case dlq.CommandCancel:
		return c.cancel(ctx, j.WorkflowID)
	default:
		return fmt.Errorf("unknown command %q to job %s", command.Name, j.ID)
	}
}

func (c *Client) cancel(ctx context.Context, workflowID string) error {
	info, err := c.info(ctx, workflowID)
	if err == nil && info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		err = errNotFound // CancelWorkflow itself returns no error then
	}
	if err != nil {
		return err
	}
	return toDomain(ctx, c.temporal.CancelWorkflow(ctx, workflowID, ""))
}

// update sends a command and waits for its effect. The error is dlq.ErrUnavailable when no
// worker handles the command before ctx ends. The command may still take effect later.
func (c *Client) update(ctx context.Context, asked *dlq.Operation, id dlq.ID, name string, args ...any) error {
	// The job finds the command in the audit by the id of the update; see activities.Jobs. Without an operation, the SDK
	// chooses the id of the update.
	var updateID string
	if asked != nil {
		updateID = asked.ID.String()
	}
	handle, err := c.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		UpdateID: updateID, WorkflowID: JobWorkflowID(dlq.KindRetry, id), UpdateName: name, Args: args, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, nil)
	}
	switch errorType := typeOf(err); {
	case err == nil:
		return nil
	case temporal.IsCanceledError(err), errorType == typeEnded, errorType == acceptedUpdateLost: // the job has ended meanwhile
		return errNotFound
	case ctx.Err() != nil:
		return fmt.Errorf("%w: no worker has handled the command in time: %w", dlq.ErrUnavailable, ctx.Err())
	case errors.As(err, new(*client.WorkflowUpdateServiceTimeoutOrCanceledError)): // the server's timer was ahead of ctx
		return fmt.Errorf("%w: no worker has handled the command in time: %w", dlq.ErrUnavailable, context.DeadlineExceeded)
	default:
		return toDomain(ctx, err)
	}
}

// acceptedUpdateLost is the server's error type for an update whose workflow closed before
// an answer.
const acceptedUpdateLost = "AcceptedUpdateCompletedWorkflow"
