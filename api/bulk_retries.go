package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

const (
	defaultBulks = 50
	maxBulks     = 200

	// cancelPatience is how long a cancel waits for the job to end. It usually
	// does within its current page.
	cancelPatience = 2 * time.Second
)

type bulksView struct {
	BulkRetries []bulkView `json:"bulk_retries"`
}

type bulkView struct {
	ID           dlq.ID        `json:"id"`
	Topic        string        `json:"topic"`
	State        dlq.BulkState `json:"state"`
	Reason       *string       `json:"reason"`
	Matched      int64         `json:"matched"`
	Retried      int64         `json:"retried"`
	Failed       int64         `json:"failed"`
	Dead         int64         `json:"dead"`
	Skipped      int64         `json:"skipped"`
	Progress     float64       `json:"progress"`
	PerSecond    float64       `json:"per_second"`
	EstimatedEnd *timestamp    `json:"estimated_end"`
	StartedAt    timestamp     `json:"started_at"`
	UpdatedAt    timestamp     `json:"updated_at"`
	EndedAt      *timestamp    `json:"ended_at"`
	Workflow     *workflowView `json:"workflow"`
}

// viewBulk derives progress and rate from the counts at the given time.
func (s *Server) viewBulk(b *dlq.BulkRetry, now time.Time) bulkView {
	view := bulkView{
		ID: b.ID, Topic: b.Topic, State: b.State, Reason: optionalText(b.Reason), Matched: b.Matched,
		Retried: b.Counts.Retried, Failed: b.Counts.Failed, Dead: b.Counts.Dead, Skipped: b.Counts.Skipped,
		Progress: progress(b), StartedAt: timestamp(b.StartedAt), UpdatedAt: timestamp(b.UpdatedAt), EndedAt: optionalTime(b.EndedAt),
		Workflow: s.viewWorkflow(dlq.Owner{WorkflowID: b.WorkflowID, RunID: b.ID.String()}),
	}
	end := now
	if b.EndedAt != nil {
		end = *b.EndedAt
	}
	// What was skipped was not sent, so it says nothing of the speed. The clock
	// of the store may be ahead of ours: then there is no rate yet.
	sent := b.Counts.Retried + b.Counts.Failed + b.Counts.Dead
	if elapsed := end.Sub(b.StartedAt).Seconds(); elapsed > 0 {
		view.PerSecond = math.Round(float64(sent)/elapsed*1000) / 1000
	}
	if left := b.Matched - b.Counts.Done(); b.State == dlq.BulkRunning && view.PerSecond > 0 && left >= 0 {
		if seconds := float64(left) / view.PerSecond; seconds < (100 * 365 * 24 * time.Hour).Seconds() {
			estimate := timestamp(now.Add(time.Duration(seconds * float64(time.Second))))
			view.EstimatedEnd = &estimate
		}
	}
	return view
}

// progress is from 0 to 1, and 1 only when the job has ended.
func progress(b *dlq.BulkRetry) float64 {
	switch {
	case b.State == dlq.BulkCompleted:
		return 1
	case b.Matched <= 0:
		return 0
	}
	return min(math.Floor(float64(b.Counts.Done())/float64(b.Matched)*10_000)/10_000, 1)
}

func (s *Server) bulkRetries(ctx context.Context, c *fiber.Ctx, q *query) error {
	limit := q.integer("limit", defaultBulks, 1, maxBulks)
	if err := q.err(); err != nil {
		return err
	}
	bulks, err := s.options.Store.Bulks(ctx, limit)
	if err != nil {
		return err
	}
	view, now := bulksView{BulkRetries: make([]bulkView, 0, len(bulks))}, time.Now()
	for i := range bulks {
		view.BulkRetries = append(view.BulkRetries, s.viewBulk(&bulks[i], now))
	}
	return reply(c, http.StatusOK, view)
}

func (s *Server) bulkRetry(ctx context.Context, c *fiber.Ctx, _ *query) error {
	id, err := pathID(c, "bulk retry")
	if err != nil {
		return err
	}
	bulk, err := s.options.Store.Bulk(ctx, id)
	if err != nil {
		return about(err, "bulk retry", id)
	}
	return reply(c, http.StatusOK, s.viewBulk(&bulk, time.Now()))
}

func (s *Server) cancelBulkRetry(ctx context.Context, c *fiber.Ctx, _ *query) error {
	id, err := pathID(c, "bulk retry")
	if err != nil {
		return err
	}
	bulk, err := s.options.Store.Bulk(ctx, id)
	if err != nil {
		return about(err, "bulk retry", id)
	}
	if bulk.State != dlq.BulkRunning {
		return bulkEnded(&bulk, nil)
	}
	execution := workflows.Execution{WorkflowID: bulk.WorkflowID, RunID: id.String()}
	if err := s.options.Retries.CancelRetryAll(ctx, execution); err != nil {
		return s.cancelRefused(ctx, &bulk, err)
	}
	// How it ends is told by the row; an end that is late or bad is no failure
	// of this call, which was to ask for it.
	_, _, _ = await(s, c, cancelPatience, execution, s.options.Retries.AwaitRetryAll)
	last, done := s.deadline(c)
	defer done()
	if now, err := s.options.Store.Bulk(last, id); err == nil {
		bulk = now
	}
	c.Location("/api/v1/bulk-retries/" + id.String())
	return reply(c, http.StatusAccepted, s.viewBulk(&bulk, time.Now()))
}

// cancelRefused explains why a job that was running a moment ago could not be
// asked to stop.
func (s *Server) cancelRefused(ctx context.Context, bulk *dlq.BulkRetry, err error) error {
	if !errors.Is(err, dlq.ErrNotFound) {
		return err
	}
	if now, readErr := s.options.Store.Bulk(ctx, bulk.ID); readErr == nil && now.State != dlq.BulkRunning {
		return bulkEnded(&now, err)
	}
	return conflict(fmt.Sprintf("bulk retry %s no longer has a running workflow", bulk.ID), err)
}

func bulkEnded(b *dlq.BulkRetry, cause error) error {
	return conflict(fmt.Sprintf("bulk retry has already ended: state=%s", b.State), cause)
}
