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

// countPatience is how long a call that does not wait for the end waits for the
// messages to be counted.
const countPatience = time.Second

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
	c.Location(bulkPath(run.bulk.ID))
	return reply(c, run.status(), view)
}

func bulkPath(id dlq.ID) string { return "/api/v1/bulk-retries/" + id.String() }

// bulkRun is a bulk retry that a call has created or joined, and waited for.
type bulkRun struct {
	bulk      dlq.BulkRetry
	execution workflows.Execution
	// published is nil while that is not known.
	published *bool
}

func (r *bulkRun) status() int {
	if r.bulk.State.IsFinal() {
		return http.StatusOK
	}
	return http.StatusAccepted
}

// runBulk creates a bulk retry, or joins the one under way that does the same, starts
// its workflow, and waits as long as the caller prefers.
//
// The row comes first. Without its workflow nothing is sent, and the sweeper closes
// it; until then the same request joins it and starts the workflow after all.
func (s *Server) runBulk(ctx context.Context, c *fiber.Ctx, spec dlq.BulkSpec) (run bulkRun, err error) {
	id := dlq.NewID()
	run.bulk, err = s.options.Store.CreateBulk(ctx,
		dlq.BulkRetry{ID: id, WorkflowID: workflows.RetryAllID(id), Spec: spec, Lanes: s.options.BulkLanes})
	if err != nil {
		return run, err
	}
	note(c, zap.Stringer("bulk_retry_id", run.bulk.ID))
	if run.execution, err = s.options.Retries.StartRetryAll(ctx, run.bulk); err != nil {
		return run, err
	}
	result, ended, err := await(s, c, s.patience(c), run.bulk.ID, s.options.Retries.AwaitRetryAll)
	if ended {
		run.bulk, run.published = result.Bulk, &result.Published
		return run, nil
	}
	if err != nil && !errors.Is(err, workflows.ErrStopped) && !errors.Is(err, dlq.ErrUnavailable) {
		return run, err
	}
	// It goes on, or was stopped, or nobody can say: the row tells how far it came. It
	// has been started, and that is durable, also where the store is away.
	patient, cancel := context.WithTimeout(c.UserContext(), countPatience)
	defer cancel()
	s.watchBulk(patient, c, &run.bulk, func(now *dlq.BulkRetry) bool { return !now.Counting })
	return run, nil
}
