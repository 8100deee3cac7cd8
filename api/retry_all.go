package api

import (
	"context"
	"fmt"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

// retryAllView has the documented fields, then the other counts of the job. Published is null while it is unknown. Without a
// database there is no job.
type retryAllView struct {
	Retried     int64        `json:"retried"`
	Message     string       `json:"message"`
	Matched     int64        `json:"matched"`
	Failed      int64        `json:"failed"`
	Dead        int64        `json:"dead"`
	Skipped     int64        `json:"skipped"`
	State       dlq.JobState `json:"state"`
	Reason      *string      `json:"reason"`
	Published   *bool        `json:"published"`
	JobID       dlq.ID       `json:"job_id,omitzero"`
	WorkflowID  string       `json:"workflow_id,omitempty"`
	RunID       string       `json:"run_id,omitempty"`
	WorkflowURL string       `json:"workflow_url,omitempty"`
	Counting    bool         `json:"counting,omitempty"` // Matched is still unknown
}

// retryAll is a shorter request for a bulk retry of a whole topic, with the documented answer.
func (s *Server) retryAll(ctx context.Context, c *fiber.Ctx, _ *query, topic string) error {
	// Other filters are refused: if a filter were ignored, the whole topic would be retried.
	b := readBody(c, "group", targetField, "rate_limit", "reason")
	spec := dlq.JobSpec{Kind: dlq.KindRetry, Filter: b.filter(topic), Order: dlq.OrderKey, TargetTopic: b.target(),
		RateLimit: b.integer("rate_limit", 0, maxRate), Reason: b.reason(c)}
	if err := b.err(); err != nil {
		return err
	}
	if err := checkGiven(s, b.fields); err != nil {
		return err
	}
	if !s.guard.hasDatabase() {
		return s.retryTopic(ctx, c, topic)
	}
	if err := s.checkTarget(ctx, "", spec.TargetTopic); err != nil {
		return err
	}
	run, err := s.runJob(ctx, c, dlq.Job{Spec: spec})
	if err != nil {
		return err
	}
	return s.replyRetryAll(c, &run, topic, jobPath(run.job.ID))
}

// replyRetryAll answers with the retry of a topic. While the retry runs, the answer links to path.
func (s *Server) replyRetryAll(c *fiber.Ctx, run *jobRun, topic, path string) error {
	b, execution := &run.job, run.execution
	text := bulkText(b, topic)
	if run.published != nil && !*run.published {
		text += ", " + nothingPublished
	}
	if !run.ended {
		c.Location(path)
	}
	return reply(c, run.status(), retryAllView{
		Retried: b.Counts.Retried, Message: text, Matched: b.Matched,
		Failed: b.Counts.Failed, Dead: b.Counts.Dead, Skipped: b.Counts.Skipped,
		State: b.State, Reason: optional(b.Reason), Published: run.published,
		JobID: b.ID, WorkflowID: execution.WorkflowID, RunID: execution.RunID,
		WorkflowURL: s.workflowURL(execution.WorkflowID, execution.RunID), Counting: b.Counting,
	})
}

// bulkText is the documented text. It has more detail if the job did not complete or if messages failed.
func bulkText(b *dlq.Job, topic string) string {
	text := fmt.Sprintf("%d messages retried in topic %s", b.Counts.Retried, topic)
	switch b.State {
	case dlq.JobRunning:
		text += " so far; the bulk retry is running"
	case dlq.JobPausing, dlq.JobPaused:
		text += " so far; the bulk retry is paused: " + b.Reason
	case dlq.JobCancelling:
		text += " so far; the bulk retry is being cancelled"
	case dlq.JobCompleted:
	case dlq.JobCancelled:
		text += " before the bulk retry was cancelled"
	case dlq.JobFailed:
		text += " before the bulk retry failed: " + b.Reason
	}
	if failed := b.Counts.Failed + b.Counts.Dead; failed > 0 {
		text += fmt.Sprintf("; %d could not be delivered", failed)
	}
	return text
}
