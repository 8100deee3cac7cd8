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

// retryView has the documented fields, followed by the result of the workflow. Published and Error are null while they are
// unknown.
type retryView struct {
	markedView
	Published   *bool   `json:"published"`
	Error       *string `json:"error"`
	Category    *string `json:"error_category"`
	WorkflowID  string  `json:"workflow_id"`
	RunID       string  `json:"run_id"`
	WorkflowURL string  `json:"workflow_url,omitempty"`
	// EditedFrom is the message whose edited copy is sent.
	EditedFrom *dlq.ID `json:"edited_from,omitempty"`
}

var retryFields = append([]string{"reason", targetField}, editFields...)

func (s *Server) retryMessage(ctx context.Context, c *fiber.Ctx, _ *query, id dlq.ID) error {
	b := readBody(c, retryFields...)
	requested, edit := b.target(), b.edit()
	if edit == nil && requested != "" {
		edit = &dlq.Edit{} // an unchanged copy, so that the message shows that it went to another target
	}
	b.reason(c)
	if err := b.err(); err != nil {
		return err
	}
	if err := checkGiven(s, b.fields, "reason"); err != nil {
		return err
	}
	m, err := s.guard.Message(ctx, id)
	if err != nil {
		return err
	}
	asked := auditOf(c)
	asked.Topic = m.DLQTopic
	// A retry of a RETRYING message joins its running workflow. If no workflow runs, the row may be outdated, and a new
	// workflow decides.
	if m.Status != dlq.StatusRetrying {
		if err := m.CheckRetryable(); err != nil {
			return s.nameCopy(ctx, &m, err)
		}
		if err := s.options.Topics.CheckOrigin(&m); err != nil {
			return err
		}
	}
	if err := s.checkOrigin(ctx, c, &m); err != nil {
		return err
	}
	if err := s.checkTarget(ctx, m.OriginalTopic, requested); err != nil {
		return err
	}
	var editedFrom dlq.ID
	if edit != nil {
		if m, err = s.replace(ctx, c, id, edit, requested); err != nil {
			return err
		}
		editedFrom, id = id, m.ID
	}
	execution, err := s.retries.StartRetryMessage(ctx, asked, &m, workflows.RetryMessageInput{MessageID: id, TargetTopic: requested})
	if err != nil {
		return describeUnsent(describeNotFound(err, "message", id), editedFrom, id)
	}
	wait := s.waitTime(c)
	result, ended, err := await(s, c, wait, execution, s.retries.AwaitRetryMessage)
	if result.Error != "" {
		shown, cancel := s.deadline(c) // the wait may have exceeded the deadline of the request
		defer cancel()
		result.Error = s.guard.textOf(shown, &m, result.Error)
	}
	switch {
	case errors.Is(err, workflows.ErrStopped):
		return s.retryStopped(c, id, editedFrom, execution)
	case err != nil && !errors.Is(err, dlq.ErrUnavailable):
		return describeNotFound(err, "message", id)
	case ended:
		return reply(c, http.StatusOK, s.viewRetry(id, editedFrom, execution, result))
	}
	return s.retryContinues(c, m, editedFrom, execution) // also if Temporal does not answer: the workflow was started
}

// retryStopped answers with the state of the message after its workflow was cancelled
// or terminated in Temporal.
func (s *Server) retryStopped(c *fiber.Ctx, id, editedFrom dlq.ID, execution workflows.Execution) error {
	ctx, cancel := s.deadline(c)
	defer cancel()
	m, err := s.guard.Message(ctx, id)
	if err != nil {
		return describeNotFound(err, "message", id)
	}
	return reply(c, http.StatusOK, s.viewRetry(id, editedFrom, execution, workflows.RetryMessageResult{
		Status: m.Status, RetryCount: m.RetryCount, MaxRetries: m.MaxRetries, Error: "its workflow was cancelled or terminated",
	}))
}

// await calls end, which waits for a workflow. ended is false if the wait time is over,
// or the server drains, before the workflow ends.
func await[W, R any](s *Server, c *fiber.Ctx, wait time.Duration, workflow W,
	end func(context.Context, W) (R, error)) (result R, ended bool, err error) {
	if wait <= 0 {
		return result, false, nil
	}
	ctx, cancel := s.waitContext(c.UserContext(), wait)
	defer cancel()
	result, err = end(ctx, workflow)
	if err != nil && ctx.Err() != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		return result, false, nil
	}
	return result, err == nil, err
}

func (s *Server) viewRetry(id, editedFrom dlq.ID, execution workflows.Execution, result workflows.RetryMessageResult) retryView {
	published := result.Published && result.Error == ""
	return retryView{
		markedView: markedView{id, result.Status, retryMessageText(result), result.RetryCount, result.MaxRetries},
		Published:  &published, Error: optional(result.Error), Category: optional(string(result.Category)),
		WorkflowID: execution.WorkflowID, RunID: execution.RunID, WorkflowURL: s.workflowURL(execution.WorkflowID, execution.RunID),
		EditedFrom: optional(editedFrom),
	}
}

// nameCopy makes the error of a replaced message name its edited copy, if the copy is known.
func (s *Server) nameCopy(ctx context.Context, m *dlq.Message, err error) error {
	if m.Ended() != dlq.ResolutionReplaced {
		return err
	}
	chain, failed := s.guard.Chain(ctx, m.ID) // does not read the bytes of the message
	if failed != nil {
		return err
	}
	for i := range chain.Hops {
		if h := &chain.Hops[i]; h.ID == m.ID && !h.Edits.By.IsZero() {
			return dlq.ReplacedError(m, h.Edits.By)
		}
	}
	return err
}

// describeUnsent tells the sender of an edit that the copy is stored, but was not sent.
func describeUnsent(err error, editedFrom, copyID dlq.ID) error {
	if editedFrom.IsZero() || !errors.Is(err, dlq.ErrUnavailable) {
		return err
	}
	return unavailable(fmt.Sprintf("the edited copy %s is stored, but its retry did not start; retry it later, with the same target_topic if any", copyID), err)
}

// retryMessageText is the documented text if the retry succeeded, and otherwise
// describes its result.
func retryMessageText(result workflows.RetryMessageResult) string {
	switch {
	case result.Error != "" && result.Status == dlq.StatusPending:
		return fmt.Sprintf("message retry failed (%d of %d): %s; it is PENDING and can be retried again",
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

// retryContinues answers 202 with the current state of the message, or with the state before the retry if the store is
// unavailable. In both cases the workflow was started.
func (s *Server) retryContinues(c *fiber.Ctx, m dlq.Message, editedFrom dlq.ID, execution workflows.Execution) error {
	ctx, cancel := s.deadline(c)
	defer cancel()
	now, err := s.guard.Message(ctx, m.ID)
	switch {
	case errors.Is(err, dlq.ErrNotFound):
		return describeNotFound(err, "message", m.ID)
	case err == nil:
		m = now
	}
	c.Location("/api/v1/dlq/messages/" + m.ID.String())
	view := s.viewRetry(m.ID, editedFrom, execution, workflows.RetryMessageResult{Status: m.Status, RetryCount: m.RetryCount, MaxRetries: m.MaxRetries})
	view.Message, view.Published = retryInitiated, nil // the result is unknown
	return reply(c, http.StatusAccepted, view)
}
