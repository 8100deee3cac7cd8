package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

// steerTimeout is how long a command waits for its effect, which usually comes with the
// end of the current page. steerInterval is how often it reads the job's row.
const (
	steerTimeout  = 2 * time.Second
	steerInterval = 50 * time.Millisecond

	pausedByOperator = "paused by an operator"
)

// command is a request to a bulk retry that has not ended.
type command struct {
	send func(context.Context, dlq.ID) error
	// inEffect tells from the job's row whether the command has taken effect.
	inEffect func(*dlq.BulkRetry) bool
}

func (s *Server) pauseBulkRetry(ctx context.Context, c *fiber.Ctx, _ *query) error {
	return s.steer(ctx, c, readBody(c, "reason"), func(bulk *dlq.BulkRetry, reason string) command {
		// A paused job is paused too: it may have paused itself and would resume by
		// itself. After this call it stays paused.
		switch {
		case reason == "" && bulk.State == dlq.BulkPaused:
			reason = bulk.Reason
		case reason == "":
			reason = pausedByOperator
		}
		return command{
			send: func(ctx context.Context, id dlq.ID) error { return s.options.Retries.PauseRetryAll(ctx, id, reason) },
			inEffect: func(now *dlq.BulkRetry) bool {
				return now.State == dlq.BulkPaused && strings.Contains(now.Reason, reason)
			},
		}
	})
}

func (s *Server) resumeBulkRetry(ctx context.Context, c *fiber.Ctx, _ *query) error {
	// A running job is resumed too: a pause may be in progress, and the latest command
	// counts.
	return s.steer(ctx, c, readBody(c, "reason"), func(*dlq.BulkRetry, string) command {
		return command{
			send:     s.options.Retries.ResumeRetryAll,
			inEffect: func(now *dlq.BulkRetry) bool { return now.State == dlq.BulkRunning },
		}
	})
}

func (s *Server) cancelBulkRetry(ctx context.Context, c *fiber.Ctx, _ *query) error {
	return s.steer(ctx, c, readBody(c, "reason"), func(*dlq.BulkRetry, string) command {
		return command{
			send:     s.cancelBulk,
			inEffect: func(now *dlq.BulkRetry) bool { return now.State.IsFinal() }, // COMPLETED and FAILED too
		}
	})
}

// cancelBulk cancels the workflow of a bulk retry. A job without a workflow, because it
// was terminated or never started, is closed here.
func (s *Server) cancelBulk(ctx context.Context, id dlq.ID) error {
	err := s.options.Retries.CancelRetryAll(ctx, id)
	if errors.Is(err, dlq.ErrNotFound) {
		_, err = s.options.Database.EndBulk(ctx, id, dlq.BulkCancelled, "cancelled by an operator; it had no running workflow")
	}
	return err
}

func (s *Server) changeBulkRetry(ctx context.Context, c *fiber.Ctx, _ *query) error {
	b := readBody(c, "rate_limit", "reason")
	b.require("rate_limit")
	rate := b.integer("rate_limit", maxRate)
	return s.steer(ctx, c, b, func(*dlq.BulkRetry, string) command {
		return command{
			send:     func(ctx context.Context, id dlq.ID) error { return s.options.Retries.SetRetryAllRate(ctx, id, rate) },
			inEffect: func(now *dlq.BulkRetry) bool { return now.Spec.RateLimit == rate },
		}
	})
}

// steer sends a command to a bulk retry. It answers 200 when the command takes effect
// within steerTimeout, and 202 otherwise.
func (s *Server) steer(ctx context.Context, c *fiber.Ctx, b *body, newCommand func(bulk *dlq.BulkRetry, reason string) command) error {
	id, err := pathID(c, "bulk retry")
	if err != nil {
		return err
	}
	reason := b.reason(c)
	if err := b.err(); err != nil {
		return err
	}
	bulk, err := s.options.Database.Bulk(ctx, id)
	if err != nil {
		return describeNotFound(err, "bulk retry", id)
	}
	if bulk.State.IsFinal() {
		return bulkEnded(&bulk, nil)
	}
	command := newCommand(&bulk, reason)
	waitCtx, cancel := context.WithTimeout(c.UserContext(), steerTimeout)
	defer cancel()
	err = command.send(waitCtx, id)
	if err != nil && waitCtx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
		return s.steerRefused(ctx, &bulk, err)
	}
	s.watchBulk(waitCtx, c, &bulk, command.inEffect)
	c.Location(bulkPath(id))
	switch {
	case command.inEffect(&bulk):
		return reply(c, http.StatusOK, s.viewBulk(&bulk, time.Now()))
	case bulk.State.IsFinal():
		return bulkEnded(&bulk, nil)
	case err != nil:
		s.recordUnanswered(c, http.StatusAccepted, "Temporal has not confirmed the command in time")
	}
	return reply(c, http.StatusAccepted, s.viewBulk(&bulk, time.Now()))
}

// watchBulk reads the job's row into bulk until stop says so, the job has ended, or
// waitCtx ends.
func (s *Server) watchBulk(waitCtx context.Context, c *fiber.Ctx, bulk *dlq.BulkRetry, stop func(*dlq.BulkRetry) bool) {
	read := func(ctx context.Context) (dlq.BulkRetry, error) { return s.options.Database.Bulk(ctx, bulk.ID) }
	watch(waitCtx, s, c, bulk, read, func(now *dlq.BulkRetry) bool { return stop(now) || now.State.IsFinal() })
}

// watch reads a job until stop says so, or until waitCtx ends. The command has already been
// sent, so a store that is unavailable does not fail the call.
func watch[J any](waitCtx context.Context, s *Server, c *fiber.Ctx, job *J, read func(context.Context) (J, error), stop func(*J) bool) {
	ticker := time.NewTicker(steerInterval)
	defer ticker.Stop()
	for {
		// Not limited by waitCtx: the row is read once more after it ends.
		ctx, cancel := s.deadline(c)
		now, err := read(ctx)
		cancel()
		if err != nil {
			return
		}
		*job = now
		if stop(job) {
			return
		}
		select {
		case <-ticker.C:
		case <-waitCtx.Done():
			return
		case <-s.draining.Done():
			return
		}
	}
}

// steerRefused explains why a command to a job that was open a moment ago has failed.
func (s *Server) steerRefused(ctx context.Context, bulk *dlq.BulkRetry, err error) error {
	if !errors.Is(err, dlq.ErrNotFound) {
		return err
	}
	if now, readErr := s.options.Database.Bulk(ctx, bulk.ID); readErr == nil && now.State.IsFinal() {
		return bulkEnded(&now, err)
	}
	return conflict(fmt.Sprintf("bulk retry %s has no running workflow; cancel it, or wait until it is closed within a minute", bulk.ID), err)
}
