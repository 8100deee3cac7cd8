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

// countTimeout limits how long a call waits until the job has counted its messages. Then the call answers 202.
const countTimeout = time.Second

// createJob starts the job of a plan, or a job without a plan.
func (s *Server) createJob(ctx context.Context, c *fiber.Ctx, _ *query) error {
	b := readBody(c, append([]string{planField}, jobFields...)...)
	if _, given := b.fields[planField]; given {
		return s.startPlan(ctx, c, b)
	}
	spec, err := s.readSpec(ctx, c, b)
	if err != nil {
		return err
	}
	return s.startNewJob(ctx, c, dlq.Job{Spec: spec})
}

// readSpec reads the specification of a job or of a plan, and checks its target.
func (s *Server) readSpec(ctx context.Context, c *fiber.Ctx, b *body) (dlq.JobSpec, error) {
	spec := b.spec()
	if err := b.err(); err != nil {
		return spec, err
	}
	logSpec(c, &spec)
	auditOf(c).Reason = spec.Reason
	return spec, s.checkTarget(ctx, "", spec.TargetTopic)
}

func logSpec(c *fiber.Ctx, spec *dlq.JobSpec) {
	addLogField(c, zap.String("topic", spec.Topic))
	addLogField(c, zap.String("kind", string(spec.Kind)))
}

// startNewJob starts a job and answers with it.
func (s *Server) startNewJob(ctx context.Context, c *fiber.Ctx, j dlq.Job) error {
	run, err := s.runJob(ctx, c, j)
	if err != nil {
		return err
	}
	view := s.viewJob(&run.job, time.Now())
	if view.retryJobFields != nil {
		view.Published = run.published
	}
	c.Location(jobPath(run.job.ID))
	return reply(c, run.status(), view)
}

func jobPath(id dlq.ID) string { return "/api/v1/jobs/" + id.String() }

// jobRun is a job that a call has created or joined.
type jobRun struct {
	job       dlq.Job
	execution workflows.Execution
	// ended is set when the job ended while the call waited.
	ended bool
	// published tells whether messages were sent to a target; nil while unknown. Without Kafka, messages are resolved without
	// being sent.
	published *bool
}

func (r *jobRun) status() int {
	if r.ended {
		return http.StatusOK
	}
	return http.StatusAccepted
}

// runJob creates a job, or joins the running job for the same work. It starts
// the workflow and waits as long as the caller prefers.
func (s *Server) runJob(ctx context.Context, c *fiber.Ctx, j dlq.Job) (run jobRun, err error) {
	if run.job, run.execution, err = s.startJob(ctx, auditOf(c), j); err != nil {
		return run, err
	}
	addLogField(c, zap.Stringer("job_id", run.job.ID))
	if run.ended = run.job.State.IsFinal(); run.ended {
		return run, nil
	}
	result, ended, err := await(s, c, s.waitTime(c), run.job, s.retries.AwaitJob)
	switch {
	case ended:
		result.Job.Spec.Filter = run.job.Spec.Filter // the workflow does not know the filter
		run.job, run.ended, run.published = result.Job, true, &result.Published
		return run, nil
	case errors.Is(err, workflows.ErrStopped): // it was cancelled, or terminated
		ctx, cancel := s.deadline(c)
		defer cancel()
		run.ended = true
		run.job, err = s.closeJob(ctx, run.job.ID)
		return run, err
	case err != nil && !errors.Is(err, dlq.ErrUnavailable):
		return run, err
	}
	// The job is still running, or Temporal no longer answers. In both cases the workflow was started.
	waitCtx, cancel := s.waitContext(c.UserContext(), countTimeout)
	defer cancel()
	_ = s.retries.AwaitCount(waitCtx, run.job.WorkflowID) // the row tells whether the messages are counted
	s.reread(c, &run.job)
	return run, nil
}

// startJob writes the row of a job before it starts the workflow. If the start fails, nothing is sent or changed: a repeated
// request joins the job and starts its workflow, or the sweep closes the job. If startJob joins a job whose workflow was
// terminated, it closes that job and creates another job. A plan has only one job, so for a plan startJob returns the closed
// job.
func (s *Server) startJob(ctx context.Context, asked *dlq.Operation, wanted dlq.Job) (dlq.Job, workflows.Execution, error) {
	wanted.Lanes = s.options.BulkLanes
	for {
		if wanted.Planned == nil {
			wanted.ID = dlq.NewID()
		}
		wanted.WorkflowID = workflows.JobWorkflowID(wanted.Spec.Kind, wanted.ID)
		j, err := s.guard.CreateJob(ctx, asked, wanted)
		if err != nil || j.State.IsFinal() { // the job of the plan has already ended
			return j, workflows.Execution{}, err
		}
		execution, err := s.retries.StartJob(ctx, asked, j)
		isNew := wanted.Planned == nil && j.ID == wanted.ID
		if isNew || !errors.Is(err, dlq.ErrNotFound) {
			return j, execution, err
		}
		if _, err := s.closeJob(ctx, j.ID); err != nil {
			return j, workflows.Execution{}, err
		}
	}
}

// closeJob closes a job whose workflow has closed without closing the job. The audit names no sender, since no request asked
// for this end.
func (s *Server) closeJob(ctx context.Context, id dlq.ID) (dlq.Job, error) {
	return s.guard.EndJob(ctx, dlq.Outside(dlq.PermJobControl, ""), id, dlq.JobFailed, workflows.GoneReason)
}
