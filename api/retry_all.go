package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"
	"go.uber.org/zap"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

// How long a 202 waits for the new job's row, which the worker writes first of
// all, so that the Location it gives can be read at once; and how often it looks.
const (
	bulkRowPatience = time.Second
	bulkRowInterval = 20 * time.Millisecond
)

// retryAllView is the documented answer, then what else the job counted.
// Published is null while that is not known.
type retryAllView struct {
	Retried     int64         `json:"retried"`
	Message     string        `json:"message"`
	Matched     int64         `json:"matched"`
	Failed      int64         `json:"failed"`
	Dead        int64         `json:"dead"`
	Skipped     int64         `json:"skipped"`
	State       dlq.BulkState `json:"state"`
	Reason      *string       `json:"reason"`
	Published   *bool         `json:"published"`
	BulkRetryID string        `json:"bulk_retry_id"`
	WorkflowID  string        `json:"workflow_id"`
	RunID       string        `json:"run_id"`
	WorkflowURL string        `json:"workflow_url,omitempty"`
}

func (s *Server) retryAll(ctx context.Context, c *fiber.Ctx, _ *query) error {
	topic, err := pathTopic(c)
	if err != nil {
		return err
	}
	execution, err := s.options.Retries.StartRetryAll(ctx, workflows.RetryAllInput{Topic: topic, Lanes: s.options.BulkLanes})
	if err != nil {
		return err
	}
	note(c, zap.String("bulk_retry_id", execution.RunID))
	result, ended, err := await(s, c, s.patience(c), execution, s.options.Retries.AwaitRetryAll)
	switch {
	case errors.Is(err, workflows.ErrStopped):
		bulk := s.startedBulk(c, topic, execution)
		return reply(c, http.StatusOK, s.viewRetryAll(&bulk, bulkText(&bulk, topic), nil, execution))
	case err != nil && !errors.Is(err, dlq.ErrUnavailable):
		return err
	case ended:
		text := bulkText(&result.Bulk, topic)
		if !result.Published {
			text += ", " + nothingPublished
		}
		return reply(c, http.StatusOK, s.viewRetryAll(&result.Bulk, text, &result.Published, execution))
	}
	bulk := s.startedBulk(c, topic, execution)
	c.Location("/api/v1/bulk-retries/" + execution.RunID)
	return reply(c, http.StatusAccepted, s.viewRetryAll(&bulk, bulkText(&bulk, topic), nil, execution))
}

func (s *Server) viewRetryAll(b *dlq.BulkRetry, text string, published *bool, execution workflows.Execution) retryAllView {
	return retryAllView{
		Retried: b.Counts.Retried, Message: text, Matched: b.Matched,
		Failed: b.Counts.Failed, Dead: b.Counts.Dead, Skipped: b.Counts.Skipped,
		State: b.State, Reason: optionalText(b.Reason), Published: published,
		BulkRetryID: execution.RunID, WorkflowID: execution.WorkflowID, RunID: execution.RunID,
		WorkflowURL: s.workflowURL(execution.WorkflowID, execution.RunID),
	}
}

// bulkText is the documented text, and says more where the job did not simply
// go through.
func bulkText(b *dlq.BulkRetry, topic string) string {
	text := fmt.Sprintf("%d messages retried in topic %s", b.Counts.Retried, topic)
	switch b.State {
	case dlq.BulkRunning:
		text += " so far; the bulk retry goes on"
	case dlq.BulkCompleted:
	case dlq.BulkCancelled:
		text += " before the bulk retry was cancelled"
	case dlq.BulkFailed:
		text += " before the bulk retry failed: " + b.Reason
	}
	if failed := b.Counts.Failed + b.Counts.Dead; failed > 0 {
		text += fmt.Sprintf("; %d could not be delivered", failed)
	}
	return text
}

// startedBulk reads the job that goes on. Before its row is there, or when the
// store is away, it is told as one that has counted nothing yet: it has been
// started, and that is durable.
func (s *Server) startedBulk(c *fiber.Ctx, topic string, execution workflows.Execution) dlq.BulkRetry {
	fresh := dlq.BulkRetry{WorkflowID: execution.WorkflowID, Topic: topic, State: dlq.BulkRunning}
	id, err := dlq.ParseID(execution.RunID)
	if err != nil {
		return fresh
	}
	ctx, cancel := context.WithTimeout(c.UserContext(), bulkRowPatience)
	defer cancel()
	ticker := time.NewTicker(bulkRowInterval)
	defer ticker.Stop()
	for {
		bulk, err := s.options.Store.Bulk(ctx, id)
		if err == nil {
			return bulk
		}
		if !errors.Is(err, dlq.ErrNotFound) {
			return fresh
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fresh
		}
	}
}
