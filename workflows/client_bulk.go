package workflows

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"dlqmanager/dlq"
)

// memoScope is where a running job keeps what it retries, for those who want to
// join it.
const memoScope = "scope"

// scope is what two bulk retries must have in common to be one. The rate limit
// is not part of it, since it can be changed; the ramp is, since whoever asks for
// care must not be handed a job that takes none.
type scope struct {
	Topic  string
	Filter dlq.BulkFilter
	Order  dlq.Order
	Ramp   *dlq.Ramp
}

func scopeOf(spec dlq.BulkSpec) scope {
	filter := spec.Filter
	if len(filter.Statuses) == 0 {
		filter.Statuses = nil // as JSON an empty list and none differ
	}
	if len(filter.IDs) == 0 {
		filter.IDs = nil
	}
	return scope{Topic: spec.Topic, Filter: filter, Order: cmp.Or(spec.Order, dlq.OrderKey), Ramp: spec.Ramp}
}

// StartRetryAll starts a bulk retry, or joins the one that runs on the topic
// with the same scope. The run id of the execution is the job's id. With another
// scope it returns a *BusyTopicError.
func (c *Client) StartRetryAll(ctx context.Context, in RetryAllInput) (Execution, error) {
	wanted := scopeOf(in.Spec)
	options := c.startOptions(c.own(RetryAllID(in.Spec.Topic)), "retry all of "+in.Spec.Topic)
	options.Memo = map[string]any{memoScope: wanted}
	options.StaticDetails = in.Spec.Reason
	options.WorkflowIDConflictPolicy = enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL
	options.WorkflowExecutionErrorWhenAlreadyStarted = true
	// The one in the way may end between the refusal and the look at it.
	const tries = 3
	for try := 1; ; try++ {
		run, err := c.temporal.ExecuteWorkflow(ctx, options, RetryAllType, in)
		var started *serviceerror.WorkflowExecutionAlreadyStarted
		if !errors.As(err, &started) {
			return executionOf(run), toDomain(ctx, err)
		}
		e, running, err := c.join(ctx, options.ID, wanted)
		if running || err != nil || try == tries {
			return e, err
		}
	}
}

// join returns the running job when its scope is the wanted one.
func (c *Client) join(ctx context.Context, workflowID string, wanted scope) (e Execution, running bool, err error) {
	info, err := c.describe(ctx, workflowID)
	if errors.Is(err, dlq.ErrNotFound) {
		return Execution{}, false, nil
	}
	if err != nil || info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return Execution{}, false, err
	}
	e = Execution{WorkflowID: workflowID, RunID: firstRunOf(info)}
	same, err := sameScope(info.GetMemo(), wanted)
	if err == nil && !same {
		err = &BusyTopicError{Topic: wanted.Topic, Running: e}
	}
	return e, true, err
}

func sameScope(memo *commonpb.Memo, wanted scope) (bool, error) {
	payload, err := converter.GetDefaultDataConverter().ToPayload(wanted)
	if err != nil {
		return false, fmt.Errorf("scope of the bulk retry: %w", err)
	}
	return bytes.Equal(payload.GetData(), memo.GetFields()[memoScope].GetData()), nil
}

// AwaitRetryAll waits for the end of a bulk retry, or for the end of ctx, whose
// error it returns then.
func (c *Client) AwaitRetryAll(ctx context.Context, e Execution) (RetryAllResult, error) {
	var result RetryAllResult
	err := c.temporal.GetWorkflow(ctx, e.WorkflowID, e.RunID).Get(ctx, &result)
	return result, toDomain(ctx, err)
}

// FindRetryAll finds a bulk retry that is running by its id, and tells it as one
// that has counted nothing yet: it is for those that no worker has taken up, which
// the store does not know. It returns dlq.ErrNotFound when there is none; a new
// one may be found a moment late, as Temporal lists it. Servers that cannot list by
// run id, those with standard visibility, find none.
func (c *Client) FindRetryAll(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error) {
	listed, err := c.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("RunId = '%s' AND WorkflowType = '%s' AND ExecutionStatus = 'Running'", id, RetryAllType),
	})
	var unable *serviceerror.InvalidArgument
	if errors.As(err, &unable) {
		return dlq.BulkRetry{}, fmt.Errorf("workflow: %w", dlq.ErrNotFound)
	}
	if err != nil {
		return dlq.BulkRetry{}, toDomain(ctx, err)
	}
	for _, info := range listed.GetExecutions() {
		if info.GetTaskQueue() != c.taskQueue {
			continue // another installation's
		}
		in, err := c.inputOf(ctx, info.GetExecution())
		started := info.GetStartTime().AsTime()
		return dlq.BulkRetry{
			ID: id, WorkflowID: info.GetExecution().GetWorkflowId(), Spec: in.Spec, Lanes: in.Lanes, State: dlq.BulkRunning,
			Counting: true, StartedAt: started, UpdatedAt: started,
		}, err
	}
	return dlq.BulkRetry{}, fmt.Errorf("workflow: %w", dlq.ErrNotFound)
}

// inputOf reads what a bulk retry was started with.
func (c *Client) inputOf(ctx context.Context, e *commonpb.WorkflowExecution) (in RetryAllInput, err error) {
	events := c.temporal.GetWorkflowHistory(ctx, e.GetWorkflowId(), e.GetRunId(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	first, err := events.Next()
	if err != nil {
		return in, toDomain(ctx, err)
	}
	input := first.GetWorkflowExecutionStartedEventAttributes().GetInput()
	if err := converter.GetDefaultDataConverter().FromPayloads(input, &in); err != nil {
		return in, fmt.Errorf("input of the bulk retry: %w", err)
	}
	return in, nil
}

// CancelRetryAll asks a bulk retry to stop. It does not wait: the lanes first have
// stopGrace to finish their pages. It returns dlq.ErrNotFound when the job has
// ended.
func (c *Client) CancelRetryAll(ctx context.Context, e Execution) error {
	info, err := c.describe(ctx, e.WorkflowID)
	if err != nil {
		return err
	}
	if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || firstRunOf(info) != e.RunID {
		return fmt.Errorf("workflow: %w", dlq.ErrNotFound)
	}
	return toDomain(ctx, c.temporal.CancelWorkflow(ctx, e.WorkflowID, info.GetExecution().GetRunId()))
}

// PauseRetryAll pauses a bulk retry and returns once nothing of it is RETRYING.
// It returns dlq.ErrNotFound when the job has ended.
func (c *Client) PauseRetryAll(ctx context.Context, e Execution, reason string) error {
	return c.update(ctx, e, UpdatePause, PauseUpdate{Reason: reason})
}

// ResumeRetryAll lets a paused bulk retry go on, whatever it was paused for. It
// returns dlq.ErrNotFound when the job has ended.
func (c *Client) ResumeRetryAll(ctx context.Context, e Execution) error {
	return c.update(ctx, e, UpdateResume)
}

// SetRetryAllRate changes the rate limit of a bulk retry, in messages per
// second; 0 lifts it. It returns dlq.ErrNotFound when the job has ended.
func (c *Client) SetRetryAllRate(ctx context.Context, e Execution, perSecond int) error {
	return c.update(ctx, e, UpdateSetRate, RateUpdate{PerSecond: perSecond})
}

// update sends a command and waits for its effect. Without a worker nobody takes
// it: then it is dlq.ErrUnavailable, and may or may not take effect later.
func (c *Client) update(ctx context.Context, e Execution, name string, args ...any) error {
	handle, err := c.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: e.WorkflowID, FirstExecutionRunID: e.RunID, UpdateName: name, Args: args,
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, nil)
	}
	var application *temporal.ApplicationError
	switch {
	case err == nil:
		return nil
	case temporal.IsCanceledError(err): // the job was cancelled meanwhile
		return fmt.Errorf("workflow: %w", dlq.ErrNotFound)
	case errors.As(err, &application) && (application.Type() == typeEnded || application.Type() == acceptedUpdateLost):
		return fmt.Errorf("workflow: %w", dlq.ErrNotFound)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: no worker has taken the command in time: %w", dlq.ErrUnavailable, ctx.Err())
	default:
		return toDomain(ctx, err)
	}
}

// acceptedUpdateLost is the type that the server gives to the error of a
// command whose workflow closed before it could answer.
const acceptedUpdateLost = "AcceptedUpdateCompletedWorkflow"

func (c *Client) describe(ctx context.Context, workflowID string) (*workflowpb.WorkflowExecutionInfo, error) {
	described, err := c.temporal.DescribeWorkflowExecution(ctx, workflowID, "")
	return described.GetWorkflowExecutionInfo(), toDomain(ctx, err)
}

// firstRunOf is what a job is known by, however often it continued as new.
// Servers before 1.24 do not tell; there the run itself stands in.
func firstRunOf(info *workflowpb.WorkflowExecutionInfo) string {
	if first := info.GetFirstRunId(); first != "" {
		return first
	}
	return info.GetExecution().GetRunId()
}
