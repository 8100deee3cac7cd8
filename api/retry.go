package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

const (
	retryInitiated   = "message retry initiated"
	nothingPublished = "but nothing was published: Kafka is not configured"
)

// retryView is the documented answer, then what the workflow made of it.
// Published and Error are null while that is not known.
type retryView struct {
	ID          dlq.ID     `json:"id"`
	Status      dlq.Status `json:"status"`
	Message     string     `json:"message"`
	RetryCount  int        `json:"retry_count"`
	MaxRetries  int        `json:"max_retries"`
	Published   *bool      `json:"published"`
	Error       *string    `json:"error"`
	Category    *string    `json:"error_category"`
	WorkflowID  string     `json:"workflow_id"`
	RunID       string     `json:"run_id"`
	WorkflowURL string     `json:"workflow_url,omitempty"`
}

func (s *Server) retryMessage(ctx context.Context, c *fiber.Ctx, _ *query) error {
	id, err := pathID(c, "message")
	if err != nil {
		return err
	}
	m, err := s.options.Store.Message(ctx, id)
	if err != nil {
		return about(err, "dlq message", id)
	}
	// A RETRYING message belongs to a workflow, which starting joins. Where
	// that one is gone, the new one judges better than the row does.
	if m.Status != dlq.StatusRetrying {
		if err := m.CheckRetryable(); err != nil {
			return err
		}
		if err := s.options.Topics.CheckOrigin(&m); err != nil {
			return err
		}
	}
	execution, err := s.options.Retries.StartRetryMessage(ctx, workflows.RetryMessageInput{MessageID: id})
	if err != nil {
		return about(err, "dlq message", id)
	}
	patience := s.patience(c)
	result, ended, err := await(s, c, patience, execution, s.options.Retries.AwaitRetryMessage)
	switch {
	case errors.Is(err, workflows.ErrStopped):
		return s.retryStopped(c, id, execution)
	case err != nil && !errors.Is(err, dlq.ErrUnavailable):
		return about(err, "dlq message", id)
	case ended:
		return reply(c, http.StatusOK, s.viewRetry(id, execution, result))
	}
	return s.retryGoesOn(c, m, execution) // also when nobody can say: it was started, and that is durable
}

// retryStopped answers for a workflow that was cancelled or terminated in
// Temporal: with the message as that left it.
func (s *Server) retryStopped(c *fiber.Ctx, id dlq.ID, execution workflows.Execution) error {
	ctx, cancel := s.deadline(c)
	defer cancel()
	m, err := s.options.Store.Message(ctx, id)
	if err != nil {
		return about(err, "dlq message", id)
	}
	return reply(c, http.StatusOK, s.viewRetry(id, execution, workflows.RetryMessageResult{
		Status: m.Status, RetryCount: m.RetryCount, MaxRetries: m.MaxRetries, Error: "its workflow was cancelled or terminated",
	}))
}

// await waits for a workflow. ended is false when patience ran out, or the
// server drains, before the workflow's end.
func await[W, R any](s *Server, c *fiber.Ctx, patience time.Duration, which W,
	end func(context.Context, W) (R, error)) (result R, ended bool, err error) {
	if patience <= 0 {
		return result, false, nil
	}
	ctx, cancel := s.waiting(c, patience)
	defer cancel()
	result, err = end(ctx, which)
	if err != nil && ctx.Err() != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		return result, false, nil
	}
	return result, err == nil, err
}

func (s *Server) viewRetry(id dlq.ID, execution workflows.Execution, result workflows.RetryMessageResult) retryView {
	published := result.Published && result.Error == ""
	return retryView{
		ID: id, Status: result.Status, Message: retryMessageText(result), RetryCount: result.RetryCount, MaxRetries: result.MaxRetries,
		Published: &published, Error: optionalText(result.Error), Category: optionalText(string(result.Category)),
		WorkflowID: execution.WorkflowID, RunID: execution.RunID, WorkflowURL: s.workflowURL(execution.WorkflowID, execution.RunID),
	}
}

// retryMessageText is the documented text when all went well, and else says
// what happened instead.
func retryMessageText(result workflows.RetryMessageResult) string {
	switch {
	case result.Error != "" && result.Status == dlq.StatusPending:
		return fmt.Sprintf("message retry failed (%d of %d): %s; it is PENDING and may be retried again",
			result.RetryCount, result.MaxRetries, result.Error)
	case result.Error != "":
		return fmt.Sprintf("message retry failed (%d of %d): %s; it is %s", result.RetryCount, result.MaxRetries, result.Error, result.Status)
	case result.Status == dlq.StatusResolved && result.Published:
		return retryInitiated
	case result.Status == dlq.StatusResolved:
		return retryInitiated + ", " + nothingPublished
	case result.Published:
		return fmt.Sprintf("message was published, but it became %s meanwhile", result.Status)
	default:
		return fmt.Sprintf("message was not published; it is %s", result.Status)
	}
}

// retryGoesOn answers 202 with the message as it stands now. The retry is
// durable, so a store that is away for this last look changes nothing: then the
// message is told as it was before.
func (s *Server) retryGoesOn(c *fiber.Ctx, m dlq.Message, execution workflows.Execution) error {
	ctx, cancel := s.deadline(c)
	defer cancel()
	now, err := s.options.Store.Message(ctx, m.ID)
	switch {
	case errors.Is(err, dlq.ErrNotFound):
		return about(err, "dlq message", m.ID)
	case err == nil:
		m = now
	}
	c.Location("/api/v1/dlq/messages/" + m.ID.String())
	return reply(c, http.StatusAccepted, retryView{
		ID: m.ID, Status: m.Status, Message: retryInitiated, RetryCount: m.RetryCount, MaxRetries: m.MaxRetries,
		WorkflowID: execution.WorkflowID, RunID: execution.RunID, WorkflowURL: s.workflowURL(execution.WorkflowID, execution.RunID),
	})
}
