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

// How long a call waits at least for the new job's row, which the worker writes
// first of all, and at most for it to be counted; and how often it looks.
const (
	bulkRowPatience = time.Second
	bulkRowInterval = 20 * time.Millisecond
)

func (s *Server) createBulkRetry(ctx context.Context, c *fiber.Ctx, _ *query) error {
	b := readBody(c, bulkFields...)
	spec, dryRun := b.spec(), b.flag("dry_run")
	if err := b.err(); err != nil {
		return err
	}
	note(c, zap.String("topic", spec.Topic))
	if dryRun {
		return s.previewBulk(c, spec)
	}
	run, err := s.runBulk(ctx, c, spec)
	if err != nil {
		return err
	}
	view := s.viewBulk(&run.bulk, time.Now())
	view.Published = run.published
	c.Location(bulkPath(run.execution.RunID))
	return reply(c, run.status(), view)
}

func bulkPath(id string) string { return "/api/v1/bulk-retries/" + id }

// bulkRun is a bulk retry that a call has started or joined, and waited for.
type bulkRun struct {
	execution workflows.Execution
	bulk      dlq.BulkRetry
	ended     bool
	// published is nil while that is not known.
	published *bool
}

func (r *bulkRun) status() int {
	if r.ended {
		return http.StatusOK
	}
	return http.StatusAccepted
}

// runBulk starts a bulk retry, or joins the one that is running, and waits as
// long as the caller prefers.
func (s *Server) runBulk(ctx context.Context, c *fiber.Ctx, spec dlq.BulkSpec) (bulkRun, error) {
	asked := time.Now()
	execution, err := s.startBulk(ctx, spec)
	if err != nil {
		return bulkRun{}, err
	}
	note(c, zap.String("bulk_retry_id", execution.RunID))
	run := bulkRun{execution: execution}
	result, ended, err := await(s, c, s.patience(c), execution, s.options.Retries.AwaitRetryAll)
	switch {
	case ended:
		run.bulk, run.ended, run.published = result.Bulk, true, &result.Published
		return run, nil
	case errors.Is(err, workflows.ErrStopped):
		run.bulk, err = s.endedBulk(c, execution, err)
		run.ended = run.bulk.State.IsFinal()
		return run, err
	case err != nil && !errors.Is(err, dlq.ErrUnavailable):
		return bulkRun{}, err
	}
	run.bulk, err = s.begunBulk(c, spec, execution, asked)
	return run, err
}

// startBulk starts a bulk retry or joins the running one. A workflow may still be
// closing when its job has ended: joining that would show an old job as a new
// one, so its end is waited for and the start tried once more.
func (s *Server) startBulk(ctx context.Context, spec dlq.BulkSpec) (workflows.Execution, error) {
	input := workflows.RetryAllInput{Spec: spec, Lanes: s.options.BulkLanes}
	asked := time.Now()
	execution, err := s.options.Retries.StartRetryAll(ctx, input)
	if err != nil || !s.isOver(ctx, execution, asked) {
		return execution, err
	}
	if _, err := s.options.Retries.AwaitRetryAll(ctx, execution); err != nil && !errors.Is(err, workflows.ErrStopped) {
		return workflows.Execution{}, err
	}
	return s.options.Retries.StartRetryAll(ctx, input)
}

// isOver reports whether the job had ended before it was asked for. A job of
// this very request started later than a second before it, whatever the clocks.
func (s *Server) isOver(ctx context.Context, execution workflows.Execution, asked time.Time) bool {
	id, err := dlq.ParseID(execution.RunID)
	if err != nil {
		return false
	}
	bulk, err := s.options.Store.Bulk(ctx, id)
	return err == nil && bulk.State.IsFinal() && bulk.StartedAt.Before(asked.Add(-time.Second)) && bulk.EndedAt.Before(asked)
}

// begunBulk reads the job that goes on. It waits until there is one, or until its
// workflow ends without: one that is refused because another is on the same
// messages, or that was terminated before a worker took it up, never gets a row,
// and a 202 for it would be a lie. So it waits as long as the server waits
// for workflows, whatever the caller prefers; for the count it waits a moment.
// Where no worker takes the job up by then, or the store is away, it is told as
// one that has counted nothing yet: it has been started, and that is durable.
func (s *Server) begunBulk(c *fiber.Ctx, spec dlq.BulkSpec, execution workflows.Execution, asked time.Time) (dlq.BulkRetry, error) {
	now := time.Now()
	job := dlq.BulkRetry{WorkflowID: execution.WorkflowID, Spec: spec, State: dlq.BulkRunning, Counting: true, StartedAt: now, UpdatedAt: now}
	id, err := dlq.ParseID(execution.RunID)
	if err != nil {
		return job, nil
	}
	job.ID = id
	patience := max(bulkRowPatience, min(s.options.RetryWait, s.options.MaxWait))
	ctx, cancel := s.waiting(c, patience-now.Sub(asked))
	defer cancel()
	end := make(chan error, 1)
	go func() {
		_, err := s.options.Retries.AwaitRetryAll(ctx, execution)
		end <- err
	}()
	ticker := time.NewTicker(bulkRowInterval)
	defer ticker.Stop()
	last := false
	for {
		look, done := s.deadline(c)
		bulk, err := s.options.Store.Bulk(look, id)
		done()
		if err == nil {
			job, last = bulk, last || !bulk.Counting || time.Since(asked) > bulkRowPatience
		}
		if last || err != nil && !errors.Is(err, dlq.ErrNotFound) {
			return job, nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			last = true
		case err := <-end:
			// Without Temporal it may go on all the same.
			if ctx.Err() == nil && !errors.Is(err, dlq.ErrUnavailable) {
				return s.endedBulk(c, execution, err)
			}
		}
	}
}

// endedBulk reads a job whose workflow has ended, with the given cause or none:
// the row tells how far it came. Where there is none, the cause is the error.
func (s *Server) endedBulk(c *fiber.Ctx, execution workflows.Execution, cause error) (dlq.BulkRetry, error) {
	id, err := dlq.ParseID(execution.RunID)
	if err != nil {
		return dlq.BulkRetry{}, err
	}
	ctx, cancel := s.deadline(c)
	defer cancel()
	bulk, err := s.options.Store.Bulk(ctx, id)
	switch {
	case !errors.Is(err, dlq.ErrNotFound):
		return bulk, err
	case cause == nil || errors.Is(cause, workflows.ErrStopped) || errors.Is(cause, dlq.ErrNotFound):
		return dlq.BulkRetry{}, conflict(fmt.Sprintf("bulk retry %s was stopped before it began", id), cause)
	default: // refused, or a defect
		return dlq.BulkRetry{}, cause
	}
}
