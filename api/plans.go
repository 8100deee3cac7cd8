package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

const planField = "plan"

// planView is a plan, with the effect of its job.
type planView struct {
	ID        dlq.ID               `json:"id"`
	Hash      string               `json:"hash"`
	ExpiresAt timestamp            `json:"expires_at"`
	JobID     *dlq.ID              `json:"job_id"` // null until the job is started
	Kind      dlq.JobKind          `json:"kind"`
	Topic     string               `json:"topic"`
	Matched   int64                `json:"matched"`
	Skipped   int64                `json:"skipped"`
	ByStatus  map[dlq.Status]int64 `json:"by_status"`
	Sample    []listedView         `json:"sample"`
	ByGroup   []dlq.PlanGroup      `json:"by_group"`
	// MoreGroups is the number of groups that ByGroup leaves out.
	MoreGroups int64 `json:"more_groups"`
	// Filters and RequestReason are the filters and the reason of the request.
	Filters          filterView `json:"filters"`
	RequestReason    *string    `json:"request_reason"`
	*retryPlanFields            // nil unless the job is a bulk retry
}

type retryPlanFields struct {
	ByErrorClass  []dlq.PreviewCount `json:"by_error_class"`
	ByTargetTopic []dlq.PreviewCount `json:"by_target_topic"`
	SkipReasons   []dlq.PreviewCount `json:"skip_reasons"`
	retrySpecView
}

// createPlan computes the effect that a job would have, stores the plan, and answers with the plan.
func (s *Server) createPlan(ctx context.Context, c *fiber.Ctx, _ *query) error {
	requestedBy(c).isPlan = true
	spec, err := s.readSpec(ctx, c, readBody(c, jobFields...))
	if err != nil {
		return err
	}
	var summary dlq.PlanSummary
	preview, err := s.preview(c, func(ctx context.Context) (preview dlq.JobPreview, err error) {
		if err := s.reserve(ctx, c, s.peakOfList()); err != nil {
			return preview, err
		}
		preview, summary, err = s.guard.PreviewJob(ctx, spec)
		return preview, err
	})
	if err != nil {
		return err
	}
	ctx, cancel := s.deadline(c) // the preview may have used up the deadline of the request
	defer cancel()
	plan := dlq.JobPlan{ID: dlq.NewID(), Spec: spec, Scope: preview.Scope, Effect: s.effectOf(&spec, &preview), Summary: summary}
	if plan, err = s.guard.CreatePlan(ctx, plan, s.options.PlanTTL); err != nil {
		return err
	}
	return s.replyPlan(c, &plan, preview.Sample)
}

// plan answers with a stored plan, in the form of createPlan. The sample leaves out deleted messages and
// shows the other messages as they are now.
func (s *Server) plan(ctx context.Context, c *fiber.Ctx, _ *query, id dlq.ID) error {
	plan, err := s.guard.Plan(ctx, id)
	if err != nil {
		return err
	}
	if !plan.IsStarted {
		if err := s.checkExpiry(ctx, &plan); err != nil {
			return err
		}
	}
	sample, err := s.readSample(ctx, &plan)
	if err != nil {
		return err
	}
	return s.replyPlan(c, &plan, sample)
}

// readSample returns the messages of a plan's sample in their order.
func (s *Server) readSample(ctx context.Context, plan *dlq.JobPlan) ([]dlq.Message, error) {
	ids := plan.Summary.Sample
	if len(ids) == 0 {
		return nil, nil
	}
	page, err := s.guard.List(ctx, dlq.ListQuery{
		Filter:   dlq.Filter{Topic: plan.Spec.Topic, IDs: ids, Archived: plan.Spec.Kind == dlq.KindRestore},
		PageSize: len(ids),
	})
	slices.SortFunc(page.Messages, func(a, b dlq.Message) int { return slices.Index(ids, a.ID) - slices.Index(ids, b.ID) })
	return page.Messages, err
}

func (s *Server) replyPlan(c *fiber.Ctx, plan *dlq.JobPlan, messages []dlq.Message) error {
	spec, summary := &plan.Spec, &plan.Summary
	ctx, cancel := s.deadline(c)
	defer cancel()
	sample, err := s.viewMessages(ctx, messages, spec.Kind == dlq.KindRestore)
	if err != nil {
		return err
	}
	view := planView{
		ID: plan.ID, Hash: plan.Hash(), ExpiresAt: timestamp(plan.ExpiresAt),
		Kind: spec.Kind, Topic: spec.Topic, Matched: plan.Effect.Matched, Skipped: summary.Skipped, ByStatus: countsOf(summary.ByStatus),
		Sample: sample, ByGroup: append([]dlq.PlanGroup{}, summary.ByGroup...), MoreGroups: summary.Groups - int64(len(summary.ByGroup)),
		Filters: viewFilter(&spec.Filter), RequestReason: optional(spec.Reason),
	}
	if plan.IsStarted {
		view.JobID = &plan.ID
	}
	if spec.Kind == dlq.KindRetry {
		view.retryPlanFields = &retryPlanFields{
			ByErrorClass: append([]dlq.PreviewCount{}, summary.ByErrorClass...), SkipReasons: append([]dlq.PreviewCount{}, summary.SkipReasons...),
			ByTargetTopic: append([]dlq.PreviewCount{}, plan.Effect.ByTarget...), retrySpecView: viewRetrySpec(spec),
		}
	}
	return reply(c, http.StatusOK, view)
}

// effectOf returns the effect of a job. The current configuration decides its targets.
func (s *Server) effectOf(spec *dlq.JobSpec, preview *dlq.JobPreview) dlq.Effect {
	effect := dlq.Effect{Matched: preview.Matched, Digest: preview.Digest}
	if spec.Kind == dlq.KindRetry {
		effect.ByTarget = s.byTarget(preview.ByTarget, preview.Matched, spec.TargetTopic)
	}
	return effect
}

// startPlan starts the job of a plan. It refuses a plan that has expired, or whose effect has changed. The job has the id of
// the plan, so a repeated request finds the job.
func (s *Server) startPlan(ctx context.Context, c *fiber.Ctx, b *body) error {
	for _, name := range jobFields {
		if _, given := b.fields[name]; given && name != "reason" {
			b.reject(name, "is part of the plan")
		}
	}
	id := b.id(planField, "plan")
	reason := b.reason(c)
	if err := b.err(); err != nil {
		return err
	}
	plan, err := s.guard.Plan(ctx, id)
	if err != nil {
		return describeNotFound(err, "plan", id)
	}
	logSpec(c, &plan.Spec)
	if reason != "" {
		plan.Spec.Reason = reason
	}
	auditOf(c).Reason, auditOf(c).Topic = plan.Spec.Reason, plan.Spec.Topic
	_, err = s.guard.Job(ctx, id)
	if errors.Is(err, dlq.ErrNotFound) {
		err = s.checkPlan(ctx, c, &plan)
		var cancel context.CancelFunc
		ctx, cancel = s.deadline(c) // the preview may have used up the deadline of the request
		defer cancel()
		if err != nil { // another request may have started the job meanwhile
			if _, missing := s.guard.Job(ctx, id); missing == nil {
				err = nil
			}
		}
	}
	if err != nil {
		return err
	}
	return s.startNewJob(ctx, c, dlq.Job{ID: id, Spec: plan.Spec, Planned: &plan.Scope})
}

// checkPlan refuses a plan that has expired, or whose effect has changed.
func (s *Server) checkPlan(ctx context.Context, c *fiber.Ctx, plan *dlq.JobPlan) error {
	if err := s.checkExpiry(ctx, plan); err != nil {
		return err
	}
	if err := s.checkTarget(ctx, "", plan.Spec.TargetTopic); err != nil {
		return err
	}
	preview, err := s.preview(c, func(ctx context.Context) (dlq.JobPreview, error) {
		return s.guard.PreviewScope(ctx, plan.Spec, plan.Scope)
	})
	if err != nil {
		return err
	}
	effect := s.effectOf(&plan.Spec, &preview)
	differences := plan.DifferencesTo(&effect)
	if len(differences) == 0 {
		return nil
	}
	details := views(differences, func(d *dlq.PlanDifference) detail { return detail{d.Name, d.String()} })
	return &apiError{status: http.StatusConflict, code: codePlanChanged, details: details,
		message: "the plan no longer holds: messages were sent, changed or deleted since, perhaps by a job that is running, " +
			"or routes were changed; make a new one"}
}

func (s *Server) checkExpiry(ctx context.Context, plan *dlq.JobPlan) error {
	now, err := s.guard.Now(ctx)
	if err != nil || now.Before(plan.ExpiresAt) {
		return err
	}
	return &apiError{status: http.StatusConflict, code: codePlanExpired,
		message: "the plan expired at " + plan.ExpiresAt.Format(time.RFC3339) + "; make a new one"}
}

// preview calls read within two limits: the time that a plan may take, and the number of plans that are made at once.
func (s *Server) preview(c *fiber.Ctx, read func(context.Context) (dlq.JobPreview, error)) (result dlq.JobPreview, err error) {
	ctx, cancel := s.waitContext(c.UserContext(), s.options.PlanTimeout) // it also ends when the server drains
	defer cancel()
	release, others := s.planLimit.takeSlot(ctx, accessOf(ctx).Principal)
	switch {
	case release != nil:
		defer release()
	case ctx.Err() == nil: // too many requests of the principal wait already
		return result, unavailable(others+" plans are being made or waiting; try again later", errors.New("too many plans"))
	default:
		return result, s.timeoutError(ctx, others+" plans were being made for", "try again later", ctx.Err())
	}
	if result, err = read(ctx); err != nil {
		err = s.timeoutError(ctx, "the plan took longer than", "narrow its filters, or raise the limit", err)
	}
	return result, err
}

// timeoutError names the time limit of plans if ctx has exceeded it. The store may then have reported the database as
// unavailable, which would mislead. Other errors are returned unchanged.
func (s *Server) timeoutError(ctx context.Context, reason, remedy string, err error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return unavailable(fmt.Sprintf("%s %s (server.plan_timeout); %s", reason, durationText(s.options.PlanTimeout), remedy), err)
}
