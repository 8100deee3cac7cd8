package workflows

import (
	"context"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"

	"dlqmanager/dlq"
)

// StartBulkAction starts the workflow of a bulk action that the store has created, or joins
// that workflow. A job has a single workflow, which runs once. The error is dlq.ErrNotFound when
// the workflow has closed.
func (c *Client) StartBulkAction(ctx context.Context, job dlq.BulkAction) (Execution, error) {
	options := c.startOptions(BulkActionID(job.ID), fmt.Sprintf("%s messages of %s", job.Spec.Action, job.Spec.Topic))
	c.describe(ctx, &options, &subject{topic: job.Spec.Topic, group: job.Spec.Group,
		path: "/api/v1/bulk-actions/" + job.ID.String(), reason: job.Spec.Reason})
	return c.startOnce(ctx, options, BulkActionType, BulkActionInput{ID: job.ID})
}

// AwaitBulkAction waits for the end of a bulk action, or returns the error of ctx if that
// ends first.
func (c *Client) AwaitBulkAction(ctx context.Context, id dlq.ID) (dlq.BulkAction, error) {
	var job dlq.BulkAction
	err := c.temporal.GetWorkflow(ctx, BulkActionID(id), "").Get(ctx, &job)
	return job, toDomain(ctx, err)
}

// CancelBulkAction asks a bulk action to stop. The error is dlq.ErrNotFound when its workflow
// does not run.
func (c *Client) CancelBulkAction(ctx context.Context, id dlq.ID) error {
	return c.cancel(ctx, BulkActionID(id))
}

// cancel cancels a workflow. The error is dlq.ErrNotFound when the workflow does not run.
func (c *Client) cancel(ctx context.Context, workflowID string) error {
	info, err := c.info(ctx, workflowID)
	if err == nil && info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		err = fmt.Errorf("workflow: %w", dlq.ErrNotFound) // CancelWorkflow itself returns no error then
	}
	if err != nil {
		return err
	}
	return toDomain(ctx, c.temporal.CancelWorkflow(ctx, workflowID, ""))
}
