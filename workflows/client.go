package workflows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"

	"dlqmanager/activities"
	"dlqmanager/dlq"
)

// ErrStopped means that a workflow did not complete, but was cancelled, was terminated or
// failed.
var ErrStopped = errors.New("the workflow was stopped")

// Client starts, awaits and cancels the workflows of this package.
//
// Its errors come from the domain: *dlq.NotRetryableError, *dlq.OwnedError,
// dlq.ErrNotFound, ErrStopped, and dlq.ErrUnavailable when Temporal is unavailable.
type Client struct {
	temporal  client.Client
	taskQueue string
	options   ClientOptions
	// attributesMissed is the last time at which the namespace did not know the search attributes, in Unix nanoseconds. For
	// attributePause after that time, starts leave the attributes out. Otherwise every start would be sent twice.
	attributesMissed atomic.Int64
}

// ClientOptions configure the contents of the Temporal Web UI.
type ClientOptions struct {
	// Namespace is the namespace of the connection.
	Namespace string
	// PublicURL is the address of the API, for links; empty for none.
	PublicURL string
	// Pages is the address of the console, for links; empty for none.
	Pages dlq.Pages
	// Log may be nil.
	Log *zap.Logger
}

// NewClient uses a connection that the caller closes.
func NewClient(temporal client.Client, taskQueue string, options ClientOptions) *Client {
	if options.Log == nil {
		options.Log = zap.NewNop()
	}
	return &Client{temporal: temporal, taskQueue: taskQueue, options: options}
}

// StartRetryMessage starts the retry of a message, or joins the retry that is running.
// Temporal's error for a running workflow tells the two cases apart. asked is nil if nobody
// asked for the retry.
func (c *Client) StartRetryMessage(ctx context.Context, asked *dlq.Operation, m *dlq.Message, in RetryMessageInput) (Execution, error) {
	options := client.StartWorkflowOptions{
		ID: RetryMessageID(in.MessageID), StaticSummary: "retry message " + in.MessageID.String(),
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
	}
	if in.TargetTopic != "" {
		options.Memo = map[string]any{targetMemo: in.TargetTopic}
	}
	about := subject{topic: m.DLQTopic, group: m.GroupID, page: c.options.Pages.Message(in.MessageID), path: "/api/v1/dlq/messages/" + in.MessageID.String()}
	if asked != nil {
		about.reason = asked.Reason
	}
	started, err := c.start(ctx, asked, &about, options, RetryMessageType, in)
	if running, ok := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); ok {
		joined := Execution{WorkflowID: options.ID, RunID: running.RunId, Joined: true}
		return joined, c.checkTarget(ctx, joined, in)
	}
	return started, err
}

// targetMemo is the name of the memo that has the requested target of a retry.
const targetMemo = "target_topic"

// checkTarget returns a *dlq.NotRetryableError when a running retry sends the message to
// another target than requested.
func (c *Client) checkTarget(ctx context.Context, running Execution, in RetryMessageInput) error {
	info, err := c.info(ctx, running.WorkflowID)
	if errors.Is(err, dlq.ErrNotFound) {
		return nil // the retry has just ended; a wait for it returns its result
	}
	if err != nil {
		return err
	}
	var target string
	if memo := info.GetMemo().GetFields()[targetMemo]; memo != nil {
		_ = converter.GetDefaultDataConverter().FromPayload(memo, &target)
	}
	if target == in.TargetTopic {
		return nil
	}
	return &dlq.NotRetryableError{ID: in.MessageID, Status: dlq.StatusRetrying,
		Reason: fmt.Sprintf("workflow %s is sending it to %s; wait for it or cancel it", running.WorkflowID, cmp.Or(target, "its original topic"))}
}

// AwaitRetryMessage waits for the end of a retry, or returns the error of ctx if ctx ends first.
func (c *Client) AwaitRetryMessage(ctx context.Context, e Execution) (RetryMessageResult, error) {
	var result RetryMessageResult
	err := c.temporal.GetWorkflow(ctx, e.WorkflowID, e.RunID).Get(ctx, &result)
	return result, toDomain(ctx, err)
}

// AwaitCount waits until a bulk retry or a bulk change has counted its scope, or has closed. The count is
// the first activity of both workflows.
func (c *Client) AwaitCount(ctx context.Context, workflowID string) error {
	events := c.temporal.GetWorkflowHistory(ctx, workflowID, "", true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() { // HasNext waits for the next event, or for the end of the workflow
		event, err := events.Next()
		if err != nil {
			return toDomain(ctx, err)
		}
		if event.GetEventType() == enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED {
			return nil
		}
	}
	return nil
}

// IsRunning reports whether the workflow that made a claim is still running. A later
// retry of the same message has the same workflow id and another token. The workflow id of a job is unique. Somebody may
// have started a workflow with this id and another type or task queue. Such a workflow does nothing for the job, so
// IsRunning is false. IsRunning is also false if the owner's id cannot be a workflow id, as in a row that was written by
// hand.
func (c *Client) IsRunning(ctx context.Context, owner dlq.Owner) (bool, error) {
	if owner.Token == "" || !isWorkflowID(owner.WorkflowID) {
		return false, nil
	}
	info, err := c.info(ctx, owner.WorkflowID)
	if errors.Is(err, dlq.ErrNotFound) || errors.As(err, new(*serviceerror.InvalidArgument)) { // longer than the server allows
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// Servers before 1.24 do not return the first run id. A single retry has a single run, so the id of this run is the
	// first.
	first := cmp.Or(info.GetFirstRunId(), info.GetExecution().GetRunId())
	isJob := owner.WorkflowID == retryAllPrefix+owner.Token && info.GetType().GetName() == RetryAllType ||
		owner.WorkflowID == changeAllPrefix+owner.Token && info.GetType().GetName() == ChangeAllType
	return info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING &&
		(first == owner.Token || isJob && info.GetTaskQueue() == c.taskQueue), nil
}

// maxWorkflowIDLength, in bytes, is far above the server's limit for a workflow id, 1,000 bytes by default, and far below
// the limit for a request.
const maxWorkflowIDLength = 10_000

// isWorkflowID is false for ids that the Temporal client cannot send. So no workflow can
// have such an id.
func isWorkflowID(id string) bool {
	notPrintable := func(r rune) bool { return r < ' ' || r > '~' }
	return id != "" && len(id) <= maxWorkflowIDLength && !strings.ContainsFunc(id, notPrintable)
}

func (c *Client) info(ctx context.Context, workflowID string) (*workflowpb.WorkflowExecutionInfo, error) {
	described, err := c.temporal.DescribeWorkflowExecution(ctx, workflowID, "")
	return described.GetWorkflowExecutionInfo(), toDomain(ctx, err)
}

// Ping returns an error wrapping dlq.ErrUnavailable when Temporal is unavailable.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
	if err != nil {
		return fmt.Errorf("%w: temporal: %w", dlq.ErrUnavailable, err)
	}
	return nil
}

// archiveSchedule is the id of the archive's schedule. Several installations may share a namespace. Each
// has its own task queue, so the id contains the name of the task queue, unless that is DefaultTaskQueue.
func (c *Client) archiveSchedule() string {
	if c.taskQueue == DefaultTaskQueue {
		return ArchiveScheduleID
	}
	return c.taskQueue + "/" + ArchiveScheduleID
}

// start starts a workflow. The error is a *serviceerror.WorkflowExecutionAlreadyStarted if the policies of the options forbid
// the start.
func (c *Client) start(
	ctx context.Context, asked *dlq.Operation, about *subject, options client.StartWorkflowOptions, workflowType string, in any,
) (Execution, error) {
	options.TaskQueue, options.WorkflowExecutionErrorWhenAlreadyStarted = c.taskQueue, true
	c.describe(asked, &options, about)
	run, err := c.execute(ctx, options, workflowType, in)
	if err != nil {
		return Execution{}, toDomain(ctx, err)
	}
	return Execution{WorkflowID: run.GetID(), RunID: run.GetRunID()}, nil
}

// toDomain translates an error of the Temporal client.
func toDomain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch {
	case errors.As(err, new(*serviceerror.NotFound)):
		return errNotFound
	case errors.As(err, new(*temporal.WorkflowExecutionError)):
		if domain := activities.FromTemporal(err); domain != nil {
			return domain
		}
		return fmt.Errorf("%w: %w", ErrStopped, err)
	case isUnavailable(err):
		return fmt.Errorf("%w: temporal: %w", dlq.ErrUnavailable, err)
	default:
		return err
	}
}

var errNotFound = fmt.Errorf("workflow: %w", dlq.ErrNotFound)

func isUnavailable(err error) bool {
	return errors.As(err, new(*serviceerror.Unavailable)) || errors.As(err, new(*serviceerror.DeadlineExceeded)) ||
		errors.As(err, new(*serviceerror.ResourceExhausted)) || errors.As(err, new(*serviceerror.NamespaceNotFound)) ||
		errors.Is(err, context.DeadlineExceeded)
}
