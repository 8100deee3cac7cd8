package api

import (
	"context"
	"encoding/json"
	"math"
	"net/http"

	"github.com/gofiber/fiber/v2"
	"go.uber.org/zap"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

// requested is the row of the audit for a request.
type requested struct {
	dlq.Operation
	// isDryRun is set when the request changes nothing, so that an error is not recorded.
	isDryRun bool
	// acceptedBy is the workflow of the row that is accepted. It is set once a command or a job has
	// been recorded, so that its failure is too.
	acceptedBy string
}

// newOperation is the row of the audit for a request, as far as it is known before the
// handler runs.
func newOperation(c *fiber.Ctx, r route, p *dlq.Principal) *requested {
	o := &requested{Operation: dlq.Operation{
		Subject: p.Subject, Method: p.Method, Address: clientOf(c), Action: r.permission, Target: r.target, RequestID: requestIDOf(c),
	}}
	if topic := c.Params("topic"); dlq.IsTopicName(topic) {
		o.Topic = topic
	}
	if id, err := dlq.ParseID(c.Params("id")); err == nil {
		o.TargetID = id
	}
	return o
}

// concerns completes the operation of a request by what it changes.
func (a *access) concerns(id dlq.ID, topic string) {
	if a.operation != nil {
		a.operation.Topic = topic
		if !id.IsZero() {
			a.operation.TargetID = id
		}
	}
}

// created completes the operation of a request by the job that it has created or joined.
func (a *access) created(id dlq.ID, workflowID, topic string) {
	a.concerns(id, topic)
	if a.operation != nil {
		a.operation.acceptedBy = workflowID
	}
}

// audited makes a change of the store record the operation of the request.
func audited(ctx context.Context) context.Context {
	if o := accessOf(ctx).operation; o != nil {
		return dlq.WithOperation(ctx, o.Operation)
	}
	return ctx
}

// auditedFilter is the filter of a job in the audit.
type auditedFilter struct {
	Action dlq.Action `json:"action,omitempty"`
	Filter dlq.Filter `json:"filter"`
	// TargetTopic is the requested target of a bulk retry.
	TargetTopic string `json:"target_topic,omitempty"`
}

// describe puts the filter of a new job into the operation.
func describe(ctx context.Context, f *dlq.Filter, action dlq.Action, target string) {
	if o := accessOf(ctx).operation; o != nil {
		o.Detail, _ = json.Marshal(auditedFilter{Action: action, Filter: f.Masked(), TargetTopic: target}) // always encodes
	}
}

// recordRefusal records a request that changed nothing. It leaves out malformed requests,
// and those that were not authenticated. Without a database there is no audit.
func (s *Server) recordRefusal(c *fiber.Ctx, r *requested, err error) {
	if s.options.Database == nil {
		return
	}
	answer := translate(err)
	switch {
	case answer.status == http.StatusForbidden || answer.status == http.StatusNotFound || answer.status == http.StatusConflict:
		r.Outcome = dlq.OperationRefused
	case r.acceptedBy != "" && answer.status >= http.StatusInternalServerError:
		r.Outcome = dlq.OperationUnknown // Temporal may have taken the command, and only its answer is lost
	case r.acceptedBy != "", answer.status >= http.StatusInternalServerError && !r.isDryRun:
		r.Outcome = dlq.OperationFailed
	default:
		return
	}
	if r.acceptedBy == "" {
		isFirst, isCounted := s.refusals.add(refusalOf(c, r, answer.code), r.Operation)
		if !isCounted {
			s.metrics.unrecorded.Inc()
		}
		if !isFirst {
			return
		}
	}
	s.recordOutcome(c, r, map[string]any{"status": answer.status, "code": answer.code, "message": answer.message})
}

func refusalOf(c *fiber.Ctx, r *requested, code string) refusal {
	client := r.Method + " " + r.Subject
	if r.Method == dlq.Anonymous.Method {
		client = "address " + addressBucket(r.Address)
	}
	return refusal{client: client, route: c.Method() + " " + c.Route().Path, code: code, outcome: r.Outcome}
}

// recordRepeated records the refused requests that were counted after the first one.
func (s *Server) recordRepeated(o dlq.Operation) {
	ctx, cancel := context.WithTimeout(context.Background(), s.options.RequestTimeout)
	defer cancel()
	if err := s.options.Database.RecordOperation(ctx, o); err != nil {
		s.options.Logger.Warn("cannot record refused requests", zap.String("request_id", o.RequestID), zap.Error(err))
	}
}

// recordUnanswered records that a command may or may not take effect, though its request is
// answered with success.
func (s *Server) recordUnanswered(c *fiber.Ctx, status int, message string) {
	if r := accessOf(c.UserContext()).operation; r != nil && r.acceptedBy != "" {
		r.Outcome = dlq.OperationUnknown
		s.recordOutcome(c, r, map[string]any{"status": status, "message": message})
	}
}

func (s *Server) recordOutcome(c *fiber.Ctx, r *requested, detail map[string]any) {
	r.WorkflowID = r.acceptedBy
	r.Detail, _ = json.Marshal(detail) // always encodes
	ctx, cancel := s.deadline(c)
	defer cancel()
	s.completeRefusal(ctx, c, r)
	if err := s.options.Database.RecordOperation(ctx, r.Operation); err != nil {
		s.options.Logger.Warn("cannot record the outcome of a request", zap.String("request_id", r.RequestID), zap.Error(err))
	}
}

// completeRefusal adds the reason and the topic, which are unknown if the request was refused
// before its handler read them.
func (s *Server) completeRefusal(ctx context.Context, c *fiber.Ctx, r *requested) {
	b := readBody(c, "reason", "topic")
	if reason, given := b.text("reason", math.MaxInt); given {
		r.Reason = reason // the store shortens it
	} else if r.Reason == "" {
		r.Reason = c.Query("reason")
	}
	switch {
	case r.Topic != "":
	case r.TargetID.IsZero():
		if topic, _ := b.text("topic", maxBulkText); dlq.IsTopicName(topic) {
			r.Topic = topic
		}
	case r.Target == dlq.TargetMessage: // these reads set r.Topic, also for a topic that the sender may not see
		_, _ = s.options.Store.Message(ctx, r.TargetID)
	case r.Target == dlq.TargetBulkRetry:
		_, _ = s.options.Database.Bulk(ctx, r.TargetID)
	case r.Target == dlq.TargetGroup:
		_, _ = s.options.Database.Group(ctx, r.TargetID, "")
	default:
		_, _ = s.options.Database.Action(ctx, r.TargetID)
	}
}

// recordingRetries records each command to a workflow before it is sent. The store records
// those that it changes itself, such as a new job. Each method is written out, so that a new
// command does not pass unrecorded.
type recordingRetries struct {
	retries Retries
	store   AuditStore // nil without a database
}

func (r recordingRetries) record(ctx context.Context, target dlq.OperationTarget, workflowID string, detail any) (id dlq.ID, err error) {
	o := accessOf(ctx).operation
	if o == nil || r.store == nil {
		return dlq.ID{}, nil
	}
	accepted := o.Identified()
	accepted.Target, accepted.WorkflowID, accepted.Outcome = target, workflowID, dlq.OperationAccepted
	accepted.Detail, _ = json.Marshal(detail) // always encodes
	err = r.store.RecordOperation(ctx, accepted)
	if err == nil {
		o.acceptedBy = workflowID
	}
	return accepted.ID, err
}

// auditedCommand is the detail of a command to a workflow.
type auditedCommand struct {
	Command   string `json:"command"`
	RateLimit *int   `json:"rate_limit,omitempty"`
	// TargetTopic is the requested target of a retry.
	TargetTopic string `json:"target_topic,omitempty"`
	// JoinedRun is the run that another request had started.
	JoinedRun string `json:"joined_run,omitempty"`
}

func (r recordingRetries) StartRetryMessage(ctx context.Context, m *dlq.Message, input workflows.RetryMessageInput) (workflows.Execution, error) {
	command, workflowID := auditedCommand{Command: "retry", TargetTopic: input.TargetTopic}, workflows.RetryMessageID(input.MessageID)
	id, err := r.record(ctx, dlq.TargetMessage, workflowID, command)
	if err != nil {
		return workflows.Execution{}, err
	}
	input.OperationID = id
	execution, err := r.retries.StartRetryMessage(audited(ctx), m, input)
	if err == nil && execution.Joined {
		command.JoinedRun = execution.RunID
		_, err = r.record(ctx, dlq.TargetMessage, workflowID, command)
	}
	return execution, err
}

// command sends a command with the operation that it is recorded as.
func (r recordingRetries) command(ctx context.Context, id dlq.ID, c auditedCommand, send func(context.Context) error) error {
	operation, err := r.record(ctx, dlq.TargetBulkRetry, workflows.RetryAllID(id), c)
	if err != nil {
		return err
	}
	return send(dlq.WithOperation(ctx, dlq.Operation{ID: operation}))
}

func (r recordingRetries) CancelRetryAll(ctx context.Context, id dlq.ID) error {
	return r.command(ctx, id, auditedCommand{Command: dlq.CommandCancel}, func(ctx context.Context) error { return r.retries.CancelRetryAll(ctx, id) })
}

func (r recordingRetries) PauseRetryAll(ctx context.Context, id dlq.ID, reason string) error {
	return r.command(ctx, id, auditedCommand{Command: dlq.CommandPause}, func(ctx context.Context) error { return r.retries.PauseRetryAll(ctx, id, reason) })
}

func (r recordingRetries) ResumeRetryAll(ctx context.Context, id dlq.ID) error {
	return r.command(ctx, id, auditedCommand{Command: dlq.CommandResume}, func(ctx context.Context) error { return r.retries.ResumeRetryAll(ctx, id) })
}

func (r recordingRetries) SetRetryAllRate(ctx context.Context, id dlq.ID, perSecond int) error {
	return r.command(ctx, id, auditedCommand{Command: dlq.CommandRate, RateLimit: &perSecond},
		func(ctx context.Context) error { return r.retries.SetRetryAllRate(ctx, id, perSecond) })
}

// The store records the creation of the jobs, and the stop of a bulk action.

func (r recordingRetries) StartRetryAll(ctx context.Context, bulk dlq.BulkRetry) (workflows.Execution, error) {
	return r.retries.StartRetryAll(audited(ctx), bulk)
}

func (r recordingRetries) StartBulkAction(ctx context.Context, action dlq.BulkAction) (workflows.Execution, error) {
	return r.retries.StartBulkAction(audited(ctx), action)
}

func (r recordingRetries) CancelBulkAction(ctx context.Context, id dlq.ID) error {
	return r.retries.CancelBulkAction(ctx, id)
}

func (r recordingRetries) TriggerArchive(ctx context.Context) (string, error) {
	if _, err := r.record(ctx, dlq.TargetArchive, workflows.ArchiveScheduleID, auditedCommand{Command: "run"}); err != nil {
		return "", err
	}
	return r.retries.TriggerArchive(ctx)
}

func (r recordingRetries) AwaitRetryMessage(ctx context.Context, execution workflows.Execution) (workflows.RetryMessageResult, error) {
	return r.retries.AwaitRetryMessage(ctx, execution)
}

func (r recordingRetries) AwaitRetryAll(ctx context.Context, id dlq.ID) (workflows.RetryAllResult, error) {
	return r.retries.AwaitRetryAll(ctx, id)
}

func (r recordingRetries) AwaitBulkAction(ctx context.Context, id dlq.ID) (dlq.BulkAction, error) {
	return r.retries.AwaitBulkAction(ctx, id)
}
