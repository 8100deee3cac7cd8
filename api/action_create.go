package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"go.uber.org/zap"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

// actionFields are the fields of a bulk action's request.
var actionFields = slices.Concat([]string{"action", "topic", "reason", "dry_run"}, filterNames(dlq.InJobs), []string{negation})

// actionSpec reads the specification of a bulk action.
func (b *body) actionSpec() dlq.ActionSpec {
	b.require("action")
	spec := dlq.ActionSpec{Filter: b.filter(b.topic())}
	spec.Reason, _ = b.text("reason", maxBulkText)
	raw, given := b.fields["action"]
	if !given {
		return spec
	}
	action, _ := textOf(raw)
	spec.Action = dlq.Action(action)
	if spec.Action == dlq.ActionRestore && len(spec.Statuses) == 0 {
		spec.Statuses = []dlq.Status{dlq.StatusDead} // what was delivered is not sent again by mistake
	}
	switch {
	case !slices.Contains(dlq.Actions, spec.Action):
		b.reject("action", "must be one of revive, dead, delete, restore")
	case len(spec.ChangedStatuses()) == 0:
		b.reject("status", "leaves nothing to do: %s changes messages that are %s", spec.Action, listed(spec.Action.Statuses()))
	}
	return spec
}

// listed writes "PENDING, RESOLVED or DEAD".
func listed(statuses []dlq.Status) string {
	names := make([]string, len(statuses))
	for i, status := range statuses {
		names[i] = string(status)
	}
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func (s *Server) createBulkAction(ctx context.Context, c *fiber.Ctx, _ *query) error {
	b := readBody(c, actionFields...)
	spec, dryRun := b.actionSpec(), b.flag("dry_run")
	if err := b.err(); err != nil {
		return err
	}
	addLogField(c, zap.String("topic", spec.Topic))
	noteReason(c, spec.Reason)
	addLogField(c, zap.String("action", string(spec.Action)))
	if dryRun {
		return s.previewAction(c, spec)
	}
	job, err := s.startAction(ctx, spec)
	if err != nil {
		return err
	}
	addLogField(c, zap.Stringer("bulk_action_id", job.ID))
	c.Location(actionPath(job.ID))
	result, ended, err := await(s, c, s.waitTime(c), job.ID, s.options.Retries.AwaitBulkAction)
	switch {
	case ended:
		return reply(c, http.StatusOK, s.viewAction(&result, time.Now()))
	case errors.Is(err, workflows.ErrStopped): // it was cancelled, or terminated
		ctx, cancel := s.deadline(c)
		defer cancel()
		if job, err = s.closeAction(ctx, job.ID); err != nil {
			return err
		}
		return reply(c, http.StatusOK, s.viewAction(&job, time.Now()))
	case err != nil && !errors.Is(err, dlq.ErrUnavailable):
		return err
	}
	// The job is still running, or Temporal no longer answers. The workflow has been
	// started either way.
	waitCtx, cancel := context.WithTimeout(c.UserContext(), countTimeout)
	defer cancel()
	s.watchAction(waitCtx, c, &job, func(now *dlq.BulkAction) bool { return !now.Counting })
	return reply(c, http.StatusAccepted, s.viewAction(&job, time.Now()))
}

func actionPath(id dlq.ID) string { return "/api/v1/bulk-actions/" + id.String() }

// startAction creates a bulk action, or joins the running one for the same work, and starts
// its workflow. It writes the job's row first, for the reasons of startBulk.
func (s *Server) startAction(ctx context.Context, spec dlq.ActionSpec) (dlq.BulkAction, error) {
	for {
		id := dlq.NewID()
		job, err := s.options.Database.CreateAction(ctx, dlq.BulkAction{ID: id, WorkflowID: workflows.BulkActionID(id), Spec: spec})
		if err != nil {
			return job, err
		}
		_, err = s.options.Retries.StartBulkAction(ctx, job)
		if job.ID == id || !errors.Is(err, dlq.ErrNotFound) {
			return job, err
		}
		if _, err := s.closeAction(ctx, job.ID); err != nil {
			return job, err
		}
	}
}

// closeAction closes a job whose workflow has closed, unless the workflow closed the job.
func (s *Server) closeAction(ctx context.Context, id dlq.ID) (dlq.BulkAction, error) {
	return s.options.Database.EndAction(ctx, id, dlq.BulkFailed, workflows.GoneReason)
}
