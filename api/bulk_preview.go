package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

// previewView says what a bulk retry would do.
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
}

type previewCountView struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

// previewsAtOnce bounds what dry runs take of the database's connections and time.
const previewsAtOnce = 2

func (s *Server) previewBulk(c *fiber.Ctx, spec dlq.BulkSpec) error {
	ctx, cancel := context.WithTimeout(c.UserContext(), s.options.PreviewTimeout)
	defer cancel()
	defer context.AfterFunc(s.draining, cancel)() // a stop does not wait for it
	select {
	case s.previews <- struct{}{}:
		defer func() { <-s.previews }()
	case <-ctx.Done():
		return s.outOfTime(ctx, fmt.Sprintf("%d other dry runs were under way for", previewsAtOnce), "try again later", ctx.Err())
	}
	preview, err := s.options.Store.PreviewBulk(ctx, spec)
	if err != nil {
		return s.outOfTime(ctx, "the dry run took longer than", "let its filters choose less, or raise the limit", err)
	}
	view := previewView{
		DryRun: true, Topic: spec.Topic, Matched: preview.Matched, Skipped: preview.Skipped, ByStatus: countsOf(preview.ByStatus),
		ByErrorClass: viewCounts(preview.ByErrorClass), ByTargetTopic: viewCounts(preview.ByTarget), SkipReasons: viewCounts(preview.SkipReasons),
		Sample: make([]listedView, 0, len(preview.Sample)),
	}
	for i := range preview.Sample {
		view.Sample = append(view.Sample, viewListed(&preview.Sample[i]))
	}
	return reply(c, http.StatusOK, view)
}

// outOfTime names the limit of a dry run where that is why it failed: then a store may
// find that the database is away. Every other error, such as that of a stop, is left
// as it is.
func (s *Server) outOfTime(ctx context.Context, what, remedy string, err error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return unavailable(fmt.Sprintf("%s %s (server.dry_run_timeout); %s", what, durationText(s.options.PreviewTimeout), remedy), err)
}

func viewCounts(counts []dlq.PreviewCount) []previewCountView {
	view := make([]previewCountView, 0, len(counts))
	for _, count := range counts {
		view = append(view, previewCountView(count))
	}
	return view
}
