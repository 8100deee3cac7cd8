package workflows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"dlqmanager/activities"
	"dlqmanager/dlq"
)

// ErrStopped means that a workflow was cancelled, was terminated or failed instead
// of coming to its own end.
var ErrStopped = errors.New("the workflow was stopped")

// Client starts, awaits and cancels the workflows of this package.
//
// Its errors are those of the domain: *dlq.NotRetryableError, *dlq.OwnedError,
// dlq.ErrNotFound, ErrStopped, and dlq.ErrUnavailable when Temporal is away.
type Client struct {
	temporal  client.Client
	taskQueue string
}

// NewClient uses a connection that the caller keeps and closes.
func NewClient(temporal client.Client, taskQueue string) *Client {
	return &Client{temporal: temporal, taskQueue: taskQueue}
}

// StartRetryMessage starts the retry of one message, or joins the one that is
// running.
func (c *Client) StartRetryMessage(ctx context.Context, in RetryMessageInput) (Execution, error) {
	options := c.startOptions(RetryMessageID(in.MessageID), "retry message "+in.MessageID.String())
	run, err := c.temporal.ExecuteWorkflow(ctx, options, RetryMessageType, in)
	return executionOf(run), toDomain(ctx, err)
}

// AwaitRetryMessage waits for the end of a retry, or for the end of ctx, whose
// error it returns then.
func (c *Client) AwaitRetryMessage(ctx context.Context, e Execution) (RetryMessageResult, error) {
	var result RetryMessageResult
	err := c.temporal.GetWorkflow(ctx, e.WorkflowID, e.RunID).Get(ctx, &result)
	return result, toDomain(ctx, err)
}

// IsRunning reports whether the workflow that made a claim still lives. A later
// retry of the same message is another owner with the same workflow id; a bulk retry
// has its workflow id for itself. An owner that no workflow can be, such as that of a
// row which was written by hand, does not live.
func (c *Client) IsRunning(ctx context.Context, owner dlq.Owner) (bool, error) {
	if owner.Token == "" || !canBeAsked(owner.WorkflowID) {
		return false, nil
	}
	info, err := c.describe(ctx, owner.WorkflowID)
	var impossible *serviceerror.InvalidArgument // longer than the server allows
	if errors.Is(err, dlq.ErrNotFound) || errors.As(err, &impossible) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// Servers before 1.24 do not tell the first run; there the run itself stands in.
	first := cmp.Or(info.GetFirstRunId(), info.GetExecution().GetRunId())
	return info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING &&
		(first == owner.Token || owner.WorkflowID == retryAllPrefix+owner.Token), nil
}

// longestID is far beyond what servers take for a workflow id, 1,000 bytes by default,
// and far below what they take for a request.
const longestID = 10_000

// canBeAsked is false of ids that the Temporal client does not send. It could not have
// started a workflow by such an id either.
func canBeAsked(id string) bool {
	notPrintable := func(r rune) bool { return r < ' ' || r > '~' }
	return id != "" && len(id) <= longestID && !strings.ContainsFunc(id, notPrintable)
}

func (c *Client) describe(ctx context.Context, workflowID string) (*workflowpb.WorkflowExecutionInfo, error) {
	described, err := c.temporal.DescribeWorkflowExecution(ctx, workflowID, "")
	return described.GetWorkflowExecutionInfo(), toDomain(ctx, err)
}

// Ping returns an error wrapping dlq.ErrUnavailable when Temporal is away.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
	if err != nil {
		return fmt.Errorf("%w: temporal: %w", dlq.ErrUnavailable, err)
	}
	return nil
}

// own makes an id this installation's. Installations that share a namespace have
// task queues of their own, and those are part of the ids of all but the first.
func (c *Client) own(id string) string {
	if c.taskQueue == DefaultTaskQueue {
		return id
	}
	return c.taskQueue + "/" + id
}

func (c *Client) startOptions(workflowID, summary string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID:        workflowID,
		TaskQueue: c.taskQueue,
		// A second call joins the running workflow; a later one starts anew.
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		StaticSummary:            summary,
	}
}

func executionOf(run client.WorkflowRun) Execution {
	if run == nil {
		return Execution{}
	}
	return Execution{WorkflowID: run.GetID(), RunID: run.GetRunID()}
}

// toDomain translates what the Temporal client says, once.
func toDomain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var (
		notFound  *serviceerror.NotFound
		execution *temporal.WorkflowExecutionError
	)
	switch {
	case errors.As(err, &notFound):
		return fmt.Errorf("workflow: %w", dlq.ErrNotFound)
	case errors.As(err, &execution):
		return stoppedOr(activities.FromTemporal(err))
	case isAway(err):
		return fmt.Errorf("%w: temporal: %w", dlq.ErrUnavailable, err)
	default:
		return err
	}
}

// stoppedOr lets the errors of the domain pass. All others mean that the workflow
// did not come to its own end, whatever stopped it.
func stoppedOr(err error) error {
	var (
		notRetryable *dlq.NotRetryableError
		owned        *dlq.OwnedError
	)
	if errors.Is(err, dlq.ErrNotFound) || errors.As(err, &notRetryable) || errors.As(err, &owned) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrStopped, err)
}

func isAway(err error) bool {
	var (
		unavailable *serviceerror.Unavailable
		deadline    *serviceerror.DeadlineExceeded
		exhausted   *serviceerror.ResourceExhausted
		namespace   *serviceerror.NamespaceNotFound
	)
	return errors.As(err, &unavailable) || errors.As(err, &deadline) || errors.As(err, &exhausted) ||
		errors.As(err, &namespace) || errors.Is(err, context.DeadlineExceeded)
}
