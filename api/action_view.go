package api

import (
	"math"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

type actionsView struct {
	BulkActions []actionView `json:"bulk_actions"`
}

// actionView is the resource: the state of the job, then its specification.
type actionView struct {
	ID            dlq.ID        `json:"id"`
	Action        dlq.Action    `json:"action"`
	Topic         string        `json:"topic"`
	State         dlq.BulkState `json:"state"`
	Reason        *string       `json:"reason"`
	Matched       int64         `json:"matched"`
	Changed       int64         `json:"changed"`
	Skipped       int64         `json:"skipped"`
	Progress      float64       `json:"progress"`
	PerSecond     float64       `json:"per_second"`
	EstimatedEnd  *timestamp    `json:"estimated_end"`
	StartedAt     timestamp     `json:"started_at"`
	UpdatedAt     timestamp     `json:"updated_at"`
	EndedAt       *timestamp    `json:"ended_at"`
	Filters       filterView    `json:"filters"`
	RequestReason *string       `json:"request_reason"`
	Workflow      *workflowView `json:"workflow"`
	// Counting is present while Matched is unknown.
	Counting bool `json:"counting,omitempty"`
}

func (s *Server) viewAction(a *dlq.BulkAction, now time.Time) actionView {
	view := actionView{
		ID: a.ID, Action: a.Spec.Action, Topic: a.Spec.Topic, State: a.State, Reason: optionalText(a.Reason),
		Matched: a.Matched, Changed: a.Changed, Skipped: a.Skipped, PerSecond: rounded(a.RecentPerSecond),
		StartedAt: timestamp(a.StartedAt), UpdatedAt: timestamp(a.UpdatedAt), EndedAt: optionalTime(a.EndedAt),
		Filters: viewFilter(&a.Spec.Filter), RequestReason: optionalText(a.Spec.Reason),
		Workflow: &workflowView{WorkflowID: a.WorkflowID, URL: s.workflowURL(a.WorkflowID, "")}, Counting: a.Counting,
	}
	switch {
	case a.State == dlq.BulkCompleted:
		view.Progress = 1
	case a.Matched > 0: // 1 only when nothing is left
		view.Progress = min(math.Floor(float64(a.Changed+a.Skipped)/float64(a.Matched)*10_000)/10_000, 1)
	}
	if a.EndedAt != nil {
		view.PerSecond = 0
		if elapsed := a.EndedAt.Sub(a.StartedAt).Seconds(); elapsed > 0 {
			view.PerSecond = rounded(float64(a.Changed) / elapsed)
		}
	}
	if end, known := a.EstimatedEnd(now); known {
		shown := timestamp(end)
		view.EstimatedEnd = &shown
	}
	return view
}

// actionPreviewView describes the effect that a bulk action would have.
type actionPreviewView struct {
	DryRun   bool                 `json:"dry_run"` // always true
	Action   dlq.Action           `json:"action"`
	Topic    string               `json:"topic"`
	Matched  int64                `json:"matched"`
	Skipped  int64                `json:"skipped"`
	ByStatus map[dlq.Status]int64 `json:"by_status"`
	Sample   []listedView         `json:"sample"`
	byGroupView
}

func (s *Server) previewAction(c *fiber.Ctx, spec dlq.ActionSpec) error {
	preview, err := dryRun(s, c, spec, s.options.Database.PreviewAction)
	if err != nil {
		return err
	}
	sample, err := s.viewSample(c, preview.Sample, spec.Action == dlq.ActionRestore)
	if err != nil {
		return err
	}
	view := actionPreviewView{
		DryRun: true, Action: spec.Action, Topic: spec.Topic, Matched: preview.Matched, Skipped: preview.Skipped,
		ByStatus: countsOf(preview.ByStatus), Sample: sample,
		byGroupView: viewByGroup(preview.ByGroup, preview.Groups),
	}
	return reply(c, http.StatusOK, view)
}
