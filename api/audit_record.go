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

type requestedKey struct{}

// requested is the row of the audit for a request that changes or exports something.
type requested struct {
	// Handlers and the guard complete the operation. WorkflowID is set once a command or a job has been recorded. If the
	// request fails after that, the failure is recorded too.
	dlq.Operation
	// isPlan is set for a request to plan a job. It changes no messages, so an error is not recorded.
	isPlan bool
}

// requestedBy is the row of the audit for the request; nil if the audit does not record requests of this kind.
func requestedBy(c *fiber.Ctx) *requested {
	r, _ := c.Locals(requestedKey{}).(*requested)
	return r
}

// auditOf is the operation of a request that changes or exports something.
func auditOf(c *fiber.Ctx) *dlq.Operation { return &requestedBy(c).Operation }

// newOperation is the row of the audit for a request, with the fields that are known before the handler runs.
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

type auditedFilter struct {
	Kind   dlq.JobKind `json:"kind"`
	Filter dlq.Filter  `json:"filter"`
	// TargetTopic is the requested target of a bulk retry.
	TargetTopic string `json:"target_topic,omitempty"`
}

func describe(asked *dlq.Operation, detail any) {
	asked.Detail, _ = json.Marshal(detail) // always encodes
}

// recordRefusal records a request that changed nothing. It leaves out malformed requests,
// and requests that were not authenticated. Without a database there is no audit.
func (s *Server) recordRefusal(c *fiber.Ctx, r *requested, err error) {
	if !s.guard.hasDatabase() {
		return
	}
	answer := translate(err)
	switch {
	case answer.status == http.StatusForbidden || answer.status == http.StatusNotFound || answer.status == http.StatusConflict:
		r.Outcome = dlq.OperationRefused
	case r.WorkflowID != "" && answer.status >= http.StatusInternalServerError:
		r.Outcome = dlq.OperationUnknown // Temporal may have taken the command: only its answer is lost
	case r.WorkflowID != "", answer.status >= http.StatusInternalServerError && !r.isPlan:
		r.Outcome = dlq.OperationFailed
	default:
		return
	}
	if r.WorkflowID == "" {
		client := clientName(c, accessOf(c.UserContext()).Principal)
		isFirst, isCounted := s.refusals.add(refusal{client, c.Method() + " " + c.Route().Path, answer.code, r.Outcome}, r.Operation)
		if !isCounted {
			s.metrics.unrecorded.Inc()
		}
		if !isFirst {
			return
		}
	}
	s.recordOutcome(c, r, map[string]any{"status": answer.status, "code": answer.code, "message": answer.message})
}

// recordRepeated records, as one row, the refused requests that followed the first refused request.
func (s *Server) recordRepeated(o dlq.Operation) {
	ctx, cancel := context.WithTimeout(context.Background(), s.options.RequestTimeout)
	defer cancel()
	if err := s.guard.RecordOperation(ctx, o); err != nil {
		s.options.Logger.Warn("cannot record refused requests", zap.String("request_id", o.RequestID), zap.Error(err))
	}
}

// recordUnanswered is for a command that may or may not take effect, though its request is answered with success. The audit
// records this.
func (s *Server) recordUnanswered(c *fiber.Ctx, status int, message string) {
	if r := requestedBy(c); r.WorkflowID != "" {
		r.Outcome = dlq.OperationUnknown
		s.recordOutcome(c, r, map[string]any{"status": status, "message": message})
	}
}

func (s *Server) recordOutcome(c *fiber.Ctx, r *requested, detail map[string]any) {
	describe(&r.Operation, detail)
	ctx, cancel := s.deadline(c)
	defer cancel()
	s.completeRefusal(ctx, c, r)
	if err := s.guard.RecordOperation(ctx, r.Operation); err != nil {
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
	default:
		r.Topic = s.guard.topicOf(ctx, r.Target, r.TargetID)
	}
}

// recordingRetries records each command to a workflow before it is sent. The store itself records its changes, such as a new
// job. recordingRetries has a method for each command, so that no new command passes unrecorded.
type recordingRetries struct {
	Waits
	retries Retries
	store   Database // nil without a database
}

// record records a command as accepted, and returns the row of the audit. The row is nil without a database.
func (r recordingRetries) record(ctx context.Context, asked *dlq.Operation, target dlq.OperationTarget, workflowID string,
	detail any) (*dlq.Operation, error) {
	if r.store == nil {
		return nil, nil //nolint:nilnil // there is no audit
	}
	accepted := asked.Identified()
	accepted.Target, accepted.WorkflowID, accepted.Outcome = target, workflowID, dlq.OperationAccepted
	describe(&accepted, detail)
	if err := r.store.RecordOperation(ctx, accepted); err != nil {
		return nil, err
	}
	asked.WorkflowID = workflowID
	return &accepted, nil
}

// auditedCommand describes a command to a workflow that is no job.
type auditedCommand struct {
	Command string `json:"command"`
	// TargetTopic is the requested target of a retry.
	TargetTopic string `json:"target_topic,omitempty"`
	// JoinedRun is the run that another request had started.
	JoinedRun string `json:"joined_run,omitempty"`
}

func (r recordingRetries) StartRetryMessage(ctx context.Context, asked *dlq.Operation, m *dlq.Message,
	input workflows.RetryMessageInput) (workflows.Execution, error) {
	command, workflowID := auditedCommand{Command: "retry", TargetTopic: input.TargetTopic}, workflows.RetryMessageID(input.MessageID)
	accepted, err := r.record(ctx, asked, dlq.TargetMessage, workflowID, command)
	if err != nil {
		return workflows.Execution{}, err
	}
	if accepted != nil {
		input.OperationID = accepted.ID
	}
	execution, err := r.retries.StartRetryMessage(ctx, asked, m, input)
	if err == nil && execution.Joined {
		command.JoinedRun = execution.RunID
		_, err = r.record(ctx, asked, dlq.TargetMessage, workflowID, command)
	}
	return execution, err
}

// SteerJob records a command to a bulk retry. The store records the stop of a job of another kind.
func (r recordingRetries) SteerJob(ctx context.Context, asked *dlq.Operation, j dlq.Job, c dlq.Command) error {
	if j.Spec.Kind != dlq.KindRetry {
		return r.retries.SteerJob(ctx, nil, j, c)
	}
	accepted, err := r.record(ctx, asked, dlq.TargetJob, workflows.JobWorkflowID(dlq.KindRetry, j.ID), c)
	if err != nil {
		return err
	}
	return r.retries.SteerJob(ctx, accepted, j, c)
}

func (r recordingRetries) TriggerArchive(ctx context.Context, asked *dlq.Operation) (string, error) {
	if _, err := r.record(ctx, asked, dlq.TargetArchive, workflows.ArchiveScheduleID, auditedCommand{Command: "run"}); err != nil {
		return "", err
	}
	return r.retries.TriggerArchive(ctx)
}
