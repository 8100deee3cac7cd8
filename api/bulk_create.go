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

// countTimeout is how long a call waits for the count of the messages before it answers
// 202.
const countTimeout = time.Second

func (s *Server) createBulkRetry(ctx context.Context, c *fiber.Ctx, _ *query) error {
	b := readBody(c, bulkFields...)
	spec, dryRun := b.spec(), b.flag("dry_run")
	if err := b.err(); err != nil {
		return err
	}
	addLogField(c, zap.String("topic", spec.Topic))
	if err := s.checkTarget(ctx, "", spec.TargetTopic); err != nil {
		return err
	}
	noteReason(c, spec.Reason)
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

// bulkRun is a bulk retry that a call has created or joined.
type bulkRun struct {
	bulk      dlq.BulkRetry
	execution workflows.Execution
	// ended is set when the job ended while the call waited.
	ended bool
	// published says whether messages were sent; nil while unknown. They are not sent
	// without Kafka.
	published *bool
}

func (r *bulkRun) status() int {
	if r.ended {
		return http.StatusOK
	}
	return http.StatusAccepted
}

// runBulk creates a bulk retry, or joins the running one for the same work. It starts
// the workflow and waits as long as the caller prefers.
func (s *Server) runBulk(ctx context.Context, c *fiber.Ctx, spec dlq.BulkSpec) (run bulkRun, err error) {
	if run.bulk, run.execution, err = s.startBulk(ctx, spec); err != nil {
		return run, err
	}
	addLogField(c, zap.Stringer("bulk_retry_id", run.bulk.ID))
	result, ended, err := await(s, c, s.waitTime(c), run.bulk.ID, s.options.Retries.AwaitRetryAll)
	switch {
	case ended:
		result.Bulk.Spec.Filter = run.bulk.Spec.Filter // the workflow does not know it
		run.bulk, run.ended, run.published = result.Bulk, true, &result.Published
		return run, nil
	case errors.Is(err, workflows.ErrStopped):
		ctx, cancel := s.deadline(c)
		defer cancel()
		run.ended = true
		run.bulk, err = s.closeBulk(ctx, run.bulk.ID)
		return run, err
	case err != nil && !errors.Is(err, dlq.ErrUnavailable):
		return run, err
	}
	// The job is still running, or Temporal no longer answers. The workflow has been
	// started either way.
	waitCtx, cancel := context.WithTimeout(c.UserContext(), countTimeout)
	defer cancel()
	s.watchBulk(waitCtx, c, &run.bulk, func(now *dlq.BulkRetry) bool { return !now.Counting })
	return run, nil
}

// startBulk writes the job's row before it starts the workflow. If the start fails, nothing
// is sent: the same request joins the job and starts its workflow, or the sweeper closes
// it. If the job that it joins has a workflow that was terminated, startBulk closes this
// job and creates another one.
func (s *Server) startBulk(ctx context.Context, spec dlq.BulkSpec) (dlq.BulkRetry, workflows.Execution, error) {
	for {
		id := dlq.NewID()
		bulk, err := s.options.Database.CreateBulk(ctx,
			dlq.BulkRetry{ID: id, WorkflowID: workflows.RetryAllID(id), Spec: spec, Lanes: s.options.BulkLanes})
		if err != nil {
			return bulk, workflows.Execution{}, err
		}
		execution, err := s.options.Retries.StartRetryAll(ctx, bulk)
		if bulk.ID == id || !errors.Is(err, dlq.ErrNotFound) {
			return bulk, execution, err
		}
		if _, err := s.closeBulk(ctx, bulk.ID); err != nil {
			return bulk, workflows.Execution{}, err
		}
	}
}

// closeBulk closes a job whose workflow has closed, unless the workflow closed the job.
func (s *Server) closeBulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error) {
	return s.options.Database.EndBulk(ctx, id, dlq.BulkFailed, workflows.GoneReason)
}
