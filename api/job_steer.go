package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

// steerTimeout limits how long a call waits until its command takes effect. Usually the command takes effect at the end of the
// current page.
const steerTimeout = 2 * time.Second

const pausedByOperator = "paused by an operator"

func (s *Server) pauseJob(ctx context.Context, c *fiber.Ctx, _ *query, id dlq.ID) error {
	return s.steer(ctx, c, id, readBody(c, "reason"), dlq.Command{Name: dlq.CommandPause})
}

// resumeJob also resumes a running job: a pause may be in progress, and then the later command wins.
func (s *Server) resumeJob(ctx context.Context, c *fiber.Ctx, _ *query, id dlq.ID) error {
	return s.steer(ctx, c, id, readBody(c, "reason"), dlq.Command{Name: dlq.CommandResume})
}

func (s *Server) cancelJob(ctx context.Context, c *fiber.Ctx, _ *query, id dlq.ID) error {
	return s.steer(ctx, c, id, readBody(c, "reason"), dlq.Command{Name: dlq.CommandCancel})
}

func (s *Server) changeJob(ctx context.Context, c *fiber.Ctx, _ *query, id dlq.ID) error {
	b := readBody(c, "rate_limit", "reason")
	b.require("rate_limit")
	rate := b.integer("rate_limit", 0, maxRate)
	return s.steer(ctx, c, id, b, dlq.Command{Name: dlq.CommandRate, RateLimit: &rate})
}

// pauseReason is the reason that a paused job shows. A pause is also sent to a paused job: the job may have paused itself and
// resume by itself. After the command it stays paused.
func pauseReason(bulk *dlq.Job, given string) string {
	switch {
	case given != "":
		return given
	case bulk.State == dlq.JobPaused:
		return bulk.Reason
	default:
		return pausedByOperator
	}
}

const cancelledByOperator = "cancelled by an operator"

// cancel cancels the workflow of a job, and waits for its end. If the workflow was terminated or never started, cancel closes
// the job.
//
// A job that changes messages is first stopped in the store. So it changes no further message, even if Temporal is unavailable.
// The workflow closes the job when it notices the stop.
func (s *Server) cancel(ctx context.Context, asked *dlq.Operation, j *dlq.Job, command dlq.Command) error {
	isStopped := j.Spec.Kind != dlq.KindRetry
	if isStopped {
		stop := *asked
		describe(&stop, command)
		if _, err := s.guard.StopJob(ctx, &stop, j.ID, dlq.JobCancelling, cancelledByOperator); err != nil {
			return err
		}
	}
	err := s.retries.SteerJob(ctx, asked, *j, command)
	switch {
	case errors.Is(err, dlq.ErrNotFound):
		_, err = s.guard.EndJob(ctx, asked, j.ID, dlq.JobCancelled, cancelledByOperator+"; it had no running workflow")
	case isStopped && errors.Is(err, dlq.ErrUnavailable):
		return nil
	case err == nil:
		waitCtx, cancel := s.waitContext(ctx, steerTimeout)
		defer cancel()
		_, _ = s.retries.AwaitJob(waitCtx, *j) // the row tells how the job ended
	}
	return err
}

// steer sends a command to a job. It answers 200 when the command takes effect
// within steerTimeout, and 202 otherwise.
func (s *Server) steer(ctx context.Context, c *fiber.Ctx, id dlq.ID, b *body, command dlq.Command) error {
	reason := b.reason(c)
	if err := b.err(); err != nil {
		return err
	}
	bulk, err := s.guard.Job(ctx, id)
	if err != nil {
		return err
	}
	if bulk.State.IsFinal() {
		return jobEnded(&bulk, nil)
	}
	asked := auditOf(c)
	asked.Topic = bulk.Spec.Topic
	if bulk.Spec.Kind != dlq.KindRetry && command.Name != dlq.CommandCancel {
		return conflict(fmt.Sprintf("a job of the kind %s can only be cancelled", bulk.Spec.Kind), nil)
	}
	if command.Name == dlq.CommandPause {
		command.Reason = pauseReason(&bulk, reason)
	}
	waitCtx, cancel := context.WithTimeout(c.UserContext(), steerTimeout)
	defer cancel()
	if command.Name == dlq.CommandCancel {
		err = s.cancel(waitCtx, asked, &bulk, command)
	} else {
		err = s.retries.SteerJob(waitCtx, asked, bulk, command)
	}
	if err != nil && waitCtx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
		return s.steerRefused(ctx, &bulk, err)
	}
	s.reread(c, &bulk)
	c.Location(jobPath(id))
	switch {
	case command.IsInEffect(&bulk):
		return reply(c, http.StatusOK, s.viewJob(&bulk, time.Now()))
	case bulk.State.IsFinal():
		return jobEnded(&bulk, nil)
	case err != nil:
		s.recordUnanswered(c, http.StatusAccepted, "Temporal has not confirmed the command in time")
	}
	return reply(c, http.StatusAccepted, s.viewJob(&bulk, time.Now()))
}

// reread reads the row of a job after a wait. The command has already been sent, so a store that is
// unavailable does not fail the call.
func (s *Server) reread(c *fiber.Ctx, job *dlq.Job) {
	ctx, cancel := s.deadline(c) // the wait may have exceeded the deadline of the request
	defer cancel()
	if now, err := s.guard.Job(ctx, job.ID); err == nil {
		*job = now
	}
}

// steerRefused explains why a command to a job that was open a moment ago has failed.
func (s *Server) steerRefused(ctx context.Context, bulk *dlq.Job, err error) error {
	if !errors.Is(err, dlq.ErrNotFound) {
		return err
	}
	if now, readErr := s.guard.Job(ctx, bulk.ID); readErr == nil && now.State.IsFinal() {
		return jobEnded(&now, err)
	}
	return conflict(fmt.Sprintf("job %s has no running workflow; cancel it, or wait until it is closed within a minute", bulk.ID), err)
}
