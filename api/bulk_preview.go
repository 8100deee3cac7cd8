package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

// previewView describes the effect that a bulk retry would have.
type previewView struct {
	DryRun        bool                 `json:"dry_run"` // always true
	Topic         string               `json:"topic"`
	Matched       int64                `json:"matched"`
	Skipped       int64                `json:"skipped"`
	ByStatus      map[dlq.Status]int64 `json:"by_status"`
	ByErrorClass  []previewCountView   `json:"by_error_class"`
	ByTargetTopic []previewCountView   `json:"by_target_topic"`
	SkipReasons   []previewCountView   `json:"skip_reasons"`
	Sample        []listedView         `json:"sample"`
	byGroupView
}

// byGroupView counts the messages of a dry run by group.
type byGroupView struct {
	ByGroup []previewGroupView `json:"by_group"`
	// MoreGroups is how many groups ByGroup leaves out.
	MoreGroups int64 `json:"more_groups"`
}

type previewGroupView struct {
	ID    *dlq.ID `json:"id"` // null for messages in no group
	Title string  `json:"title"`
	Count int64   `json:"count"`
}

func viewByGroup(counts []dlq.PreviewGroup, groups int64) byGroupView {
	view := byGroupView{ByGroup: make([]previewGroupView, 0, len(counts)), MoreGroups: groups - int64(len(counts))}
	for i := range counts {
		counted := previewGroupView{ID: optionalID(counts[i].ID), Title: "in no group", Count: counts[i].Count}
		if counted.ID != nil {
			counted.Title = dlq.GroupTitle(&counts[i].Fingerprint)
		}
		view.ByGroup = append(view.ByGroup, counted)
	}
	return view
}

type previewCountView struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

func (s *Server) previewBulk(c *fiber.Ctx, spec dlq.BulkSpec) error {
	preview, err := dryRun(s, c, spec, s.options.Database.PreviewBulk)
	if err != nil {
		return err
	}
	sample, err := s.viewSample(c, preview.Sample, false)
	if err != nil {
		return err
	}
	view := previewView{
		DryRun: true, Topic: spec.Topic, Matched: preview.Matched, Skipped: preview.Skipped, ByStatus: countsOf(preview.ByStatus),
		ByErrorClass: viewCounts(preview.ByErrorClass), SkipReasons: viewCounts(preview.SkipReasons),
		ByTargetTopic: viewCounts(s.byTarget(preview.ByTarget, preview.Matched, spec.TargetTopic)),
		Sample:        sample, byGroupView: viewByGroup(preview.ByGroup, preview.Groups),
	}
	return reply(c, http.StatusOK, view)
}

// dryRun calls preview within the limits of a dry run: its time, and how many run at once.
func dryRun[S, P any](s *Server, c *fiber.Ctx, spec S, preview func(context.Context, S) (P, error)) (result P, err error) {
	if o := accessOf(c.UserContext()).operation; o != nil {
		o.isDryRun = true
	}
	ctx, cancel := context.WithTimeout(c.UserContext(), s.options.PreviewTimeout)
	defer cancel()
	defer context.AfterFunc(s.draining, cancel)() // a stop does not wait for it
	a := accessOf(ctx)
	release, others := s.dryRunLimit.take(ctx, &a.principal)
	switch {
	case release != nil:
		defer release()
	case ctx.Err() == nil: // too many wait
		return result, unavailable(others+" dry runs are running or waiting; try again later", errors.New("too many dry runs"))
	default:
		return result, s.timeoutError(ctx, others+" dry runs were running for", "try again later", ctx.Err())
	}
	if err = s.reserve(ctx, c, peakOf(answerList)); err != nil {
		return result, err
	}
	if result, err = preview(ctx, spec); err != nil {
		err = s.timeoutError(ctx, "the dry run took longer than", "narrow its filters, or raise the limit", err)
	}
	return result, err
}

// timeoutError names the limit of a dry run when ctx has exceeded it. At the deadline a
// store may report the database as unavailable, which would mislead. Every other error
// is returned unchanged.
func (s *Server) timeoutError(ctx context.Context, reason, remedy string, err error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return unavailable(fmt.Sprintf("%s %s (server.dry_run_timeout); %s", reason, durationText(s.options.PreviewTimeout), remedy), err)
}

func viewCounts(counts []dlq.PreviewCount) []previewCountView {
	view := make([]previewCountView, 0, len(counts))
	for _, count := range counts {
		view = append(view, previewCountView(count))
	}
	return view
}
