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

func (s *Server) bulkActions(ctx context.Context, c *fiber.Ctx, q *query) error {
	limit := q.integer("limit", defaultBulks, maxBulks)
	if err := q.err(); err != nil {
		return err
	}
	jobs, err := s.options.Database.Actions(ctx, "", limit)
	if err != nil {
		return err
	}
	view, now := actionsView{BulkActions: make([]actionView, 0, len(jobs))}, time.Now()
	for i := range jobs {
		view.BulkActions = append(view.BulkActions, s.viewAction(&jobs[i], now))
	}
	return reply(c, http.StatusOK, view)
}

func (s *Server) bulkAction(ctx context.Context, c *fiber.Ctx, _ *query) error {
	id, err := pathID(c, "bulk action")
	if err != nil {
		return err
	}
	job, err := s.options.Database.Action(ctx, id)
	if err != nil {
		return describeNotFound(err, "bulk action", id)
	}
	return reply(c, http.StatusOK, s.viewAction(&job, time.Now()))
}

const cancelledByOperator = "cancelled by an operator"

// cancelBulkAction stops the job in the store, and only then cancels its workflow. So
// nothing more is changed even if Temporal is unavailable; the workflow closes the job when
// it notices the stop.
func (s *Server) cancelBulkAction(ctx context.Context, c *fiber.Ctx, _ *query) error {
	id, err := pathID(c, "bulk action")
	if err != nil {
		return err
	}
	if err := readReason(c); err != nil {
		return err
	}
	job, err := s.options.Database.Action(ctx, id)
	if err != nil {
		return describeNotFound(err, "bulk action", id)
	}
	if job.State.IsFinal() {
		return conflict(fmt.Sprintf("bulk action has already ended: state=%s", job.State), nil)
	}
	if job, err = s.options.Database.StopAction(ctx, id, cancelledByOperator); err != nil {
		return err
	}
	waitCtx, cancel := context.WithTimeout(c.UserContext(), steerTimeout)
	defer cancel()
	err = s.options.Retries.CancelBulkAction(waitCtx, id)
	switch {
	case errors.Is(err, dlq.ErrNotFound):
		if job, err = s.options.Database.EndAction(ctx, id, dlq.BulkCancelled, cancelledByOperator+"; it had no running workflow"); err != nil {
			return err
		}
	case err != nil && waitCtx.Err() == nil && !errors.Is(err, dlq.ErrUnavailable):
		return err
	}
	ended := func(now *dlq.BulkAction) bool { return now.State.IsFinal() }
	s.watchAction(waitCtx, c, &job, ended)
	c.Location(actionPath(id))
	if !ended(&job) {
		return reply(c, http.StatusAccepted, s.viewAction(&job, time.Now()))
	}
	return reply(c, http.StatusOK, s.viewAction(&job, time.Now()))
}

// watchAction reads the job's row into job until stop says so, or until waitCtx ends.
func (s *Server) watchAction(waitCtx context.Context, c *fiber.Ctx, job *dlq.BulkAction, stop func(*dlq.BulkAction) bool) {
	read := func(ctx context.Context) (dlq.BulkAction, error) { return s.options.Database.Action(ctx, job.ID) }
	watch(waitCtx, s, c, job, read, func(now *dlq.BulkAction) bool { return stop(now) || now.State.IsFinal() })
}
