package api

import (
	"context"
	"errors"
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

func (s *Server) createBulkRetry(ctx context.Context, c *fiber.Ctx, _ *query) error {
	b := readBody(c, bulkFields...)
	spec, dryRun := b.spec(), b.flag("dry_run")
	if err := b.err(); err != nil {
		return err
	}
	note(c, zap.String("topic", spec.Topic))
	if dryRun {
		return s.previewBulk(ctx, c, spec)
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
	case errors.Is(err, workflows.ErrStopped): // the row tells how far it came
		run.bulk, _ = s.startedBulk(c, spec, execution)
		run.ended = run.bulk.State.IsFinal()
		return run, nil
	case err != nil && !errors.Is(err, dlq.ErrUnavailable):
		return bulkRun{}, err
	}
	var found bool
	if run.bulk, found = s.startedBulk(c, spec, execution); !found {
		// A job that is refused, because another one is on the same messages,
		// never gets a row.
		var busy *dlq.BulkBusyError
		if _, _, err := await(s, c, bulkRowInterval, execution, s.options.Retries.AwaitRetryAll); errors.As(err, &busy) {
			return bulkRun{}, busy
		}
	}
	return run, nil
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

// startedBulk reads the job that goes on. Before its row is there, or when the
// store is away, it is told as one that has counted nothing yet: it has been
// started, and that is durable.
func (s *Server) startedBulk(c *fiber.Ctx, spec dlq.BulkSpec, execution workflows.Execution) (bulk dlq.BulkRetry, found bool) {
	now := time.Now()
	fresh := dlq.BulkRetry{WorkflowID: execution.WorkflowID, Spec: spec, State: dlq.BulkRunning, StartedAt: now, UpdatedAt: now}
	id, err := dlq.ParseID(execution.RunID)
	if err != nil {
		return fresh, false
	}
	fresh.ID = id
	ctx, cancel := context.WithTimeout(c.UserContext(), bulkRowPatience)
	defer cancel()
	ticker := time.NewTicker(bulkRowInterval)
	defer ticker.Stop()
	for {
		bulk, err := s.options.Store.Bulk(ctx, id)
		if err == nil {
			return bulk, true
		}
		if !errors.Is(err, dlq.ErrNotFound) {
			return fresh, false
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fresh, false
		}
	}
}
