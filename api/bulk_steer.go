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

// How long a command waits for its effect, which usually comes with the end of
// the current page; and how often it looks.
const (
	steerPatience = 2 * time.Second
	steerInterval = 50 * time.Millisecond

	pausedByOperator = "paused by an operator"
)

// command is something to ask of a bulk retry that has not ended.
type command struct {
	ask func(context.Context, dlq.ID) error
	// shows tells from the row whether it has taken effect.
	shows func(*dlq.BulkRetry) bool
}

func (s *Server) pauseBulkRetry(ctx context.Context, c *fiber.Ctx, _ *query) error {
	b := readBody(c, "reason")
	reason, _ := b.text("reason", maxBulkText)
	return s.steer(ctx, c, b, func(bulk *dlq.BulkRetry) command {
		// Also of a job that is paused already: it may have paused itself, to
		// go on by itself, and now it is to wait.
		switch {
		case reason == "" && bulk.State == dlq.BulkPaused:
			reason = bulk.Reason
		case reason == "":
			reason = pausedByOperator
		}
		return command{
			ask: func(ctx context.Context, id dlq.ID) error { return s.options.Retries.PauseRetryAll(ctx, id, reason) },
			shows: func(now *dlq.BulkRetry) bool {
				return now.State == dlq.BulkPaused && strings.Contains(now.Reason, reason)
			},
		}
	})
}

func (s *Server) resumeBulkRetry(ctx context.Context, c *fiber.Ctx, _ *query) error {
	// Also of a job that runs: a pause may be on its way, and the last word counts.
	return s.steer(ctx, c, readBody(c), func(*dlq.BulkRetry) command {
		return command{
			ask:   s.options.Retries.ResumeRetryAll,
			shows: func(now *dlq.BulkRetry) bool { return now.State == dlq.BulkRunning },
		}
	})
}

func (s *Server) cancelBulkRetry(ctx context.Context, c *fiber.Ctx, _ *query) error {
	return s.steer(ctx, c, readBody(c), func(*dlq.BulkRetry) command {
		return command{
			ask:   s.cancelBulk,
			shows: func(now *dlq.BulkRetry) bool { return now.State.IsFinal() }, // whichever end came first
		}
	})
}

// cancelBulk stops the workflow of a bulk retry. A job without one, because it was
// terminated or never started, is closed here.
func (s *Server) cancelBulk(ctx context.Context, id dlq.ID) error {
	err := s.options.Retries.CancelRetryAll(ctx, id)
	if errors.Is(err, dlq.ErrNotFound) {
		_, err = s.options.Store.EndBulk(ctx, id, dlq.BulkCancelled, "cancelled by an operator; it had no running workflow")
	}
	return err
}

func (s *Server) changeBulkRetry(ctx context.Context, c *fiber.Ctx, _ *query) error {
	b := readBody(c, "rate_limit")
	b.require("rate_limit")
	rate := b.integer("rate_limit", maxRate)
	return s.steer(ctx, c, b, func(*dlq.BulkRetry) command {
		return command{
			ask:   func(ctx context.Context, id dlq.ID) error { return s.options.Retries.SetRetryAllRate(ctx, id, rate) },
			shows: func(now *dlq.BulkRetry) bool { return now.Spec.RateLimit == rate },
		}
	})
}

// steer gives a bulk retry a command and answers 200 when its effect shows in a
// moment, else 202. A command that is in force already changes nothing.
func (s *Server) steer(ctx context.Context, c *fiber.Ctx, b *body, with func(*dlq.BulkRetry) command) error {
	id, err := pathID(c, "bulk retry")
	if err != nil {
		return err
	}
	if err := b.err(); err != nil {
		return err
	}
	bulk, err := s.options.Store.Bulk(ctx, id)
	if err != nil {
		return about(err, "bulk retry", id)
	}
	if bulk.State.IsFinal() {
		return bulkEnded(&bulk, nil)
	}
	command := with(&bulk)
	patient, cancel := context.WithTimeout(c.UserContext(), steerPatience)
	defer cancel()
	err = command.ask(patient, id)
	if err != nil && patient.Err() == nil {
		return s.steerRefused(ctx, &bulk, err)
	}
	s.watchBulk(patient, c, &bulk, command.shows)
	c.Location(bulkPath(id))
	switch {
	case command.shows(&bulk):
		return reply(c, http.StatusOK, s.viewBulk(&bulk, time.Now()))
	case bulk.State.IsFinal():
		return bulkEnded(&bulk, nil)
	default:
		return reply(c, http.StatusAccepted, s.viewBulk(&bulk, time.Now()))
	}
}

// watchBulk keeps bulk up to date until it shows an effect, has ended, or
// patience has. The command has been given, so a store that is away is no
// failure of the call.
func (s *Server) watchBulk(patient context.Context, c *fiber.Ctx, bulk *dlq.BulkRetry, shows func(*dlq.BulkRetry) bool) {
	ticker := time.NewTicker(steerInterval)
	defer ticker.Stop()
	for {
		// Not bounded by patience: there is always a last look.
		ctx, cancel := s.deadline(c)
		now, err := s.options.Store.Bulk(ctx, bulk.ID)
		cancel()
		if err != nil {
			return
		}
		*bulk = now
		if shows(bulk) || bulk.State.IsFinal() {
			return
		}
		select {
		case <-ticker.C:
		case <-patient.Done():
			return
		case <-s.draining.Done():
			return
		}
	}
}

// steerRefused explains why a job that had not ended a moment ago could not be
// given a command.
func (s *Server) steerRefused(ctx context.Context, bulk *dlq.BulkRetry, err error) error {
	if !errors.Is(err, dlq.ErrNotFound) {
		return err
	}
	if now, readErr := s.options.Store.Bulk(ctx, bulk.ID); readErr == nil && now.State.IsFinal() {
		return bulkEnded(&now, err)
	}
	return conflict(fmt.Sprintf("bulk retry %s has no running workflow; cancel it, or wait until it is closed within a minute", bulk.ID), err)
}
