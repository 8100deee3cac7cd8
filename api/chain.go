package api

import (
	"cmp"
	"context"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

type chainView struct {
	ID        dlq.ID    `json:"id"`
	Truncated bool      `json:"truncated"`
	Hops      []hopView `json:"hops"`
}

type hopView struct {
	ID            dlq.ID           `json:"id"`
	PreviousID    *dlq.ID          `json:"previous_id"`
	Status        dlq.Status       `json:"status"`
	Resolution    *string          `json:"resolution"`
	OriginalTopic string           `json:"original_topic"`
	DLQTopic      string           `json:"dlq_topic"`
	Source        *sourceView      `json:"source"`
	CreatedAt     timestamp        `json:"created_at"`
	RetryCount    int              `json:"retry_count"`
	MaxRetries    int              `json:"max_retries"`
	Archived      bool             `json:"archived"`
	EditedFrom    *dlq.ID          `json:"edited_from"`
	ReplacedBy    *dlq.ID          `json:"replaced_by"`
	Attempts      []hopAttemptView `json:"attempts"`
	stateFields
}

type hopAttemptView struct {
	Number    int           `json:"number"`
	StartedAt timestamp     `json:"started_at"`
	EndedAt   timestamp     `json:"ended_at"`
	Workflow  *workflowView `json:"workflow"`
	Operation *dlq.ID       `json:"operation_id"`
	Target    targetView    `json:"target"`
	Outcome   dlq.Result    `json:"outcome"`
	Category  *string       `json:"category"`
	Error     *string       `json:"error"`
}

func (s *Server) chain(ctx context.Context, c *fiber.Ctx, _ *query, id dlq.ID) error {
	chain, err := s.guard.Chain(ctx, id)
	if err != nil {
		return err
	}
	known, err := s.factsOf(ctx, chain.Hops...)
	if err != nil {
		return err
	}
	hops := views(chain.Hops, func(h *dlq.Hop) hopView { return s.viewHop(h, known) })
	return reply(c, http.StatusOK, chainView{ID: id, Truncated: chain.Truncated, Hops: hops})
}

func (s *Server) viewHop(h *dlq.Hop, known facts) hopView {
	verdict := known.verdicts[h.ID]
	view := hopView{
		ID: h.ID, PreviousID: optional(h.PreviousID), Status: h.Status, Resolution: optional(string(h.Ended())),
		OriginalTopic: h.OriginalTopic, DLQTopic: h.DLQTopic, Source: viewSource(h.Source),
		CreatedAt: timestamp(h.CreatedAt), RetryCount: h.RetryCount, MaxRetries: h.MaxRetries, Archived: h.Archived,
		EditedFrom: optional(h.Edits.From), ReplacedBy: optional(h.Edits.By),
		Attempts: []hopAttemptView{}, stateFields: s.viewState(&h.Message, verdict, h.Archived),
	}
	s.linkSource(view.Source, h.DLQTopic)
	for i, a := range h.Retries() {
		if i >= len(h.Attempts) { // the retry that delivered the message; its target is in the message
			a.TargetPartition, a.TargetOffset = h.TargetPartition, h.TargetOffset
		}
		target := targetView{Topic: h.OriginalTopic, Partition: a.TargetPartition, Offset: a.TargetOffset}
		if a.Result == dlq.ResultDelivered {
			target.Topic = cmp.Or(verdict.Target, h.OriginalTopic)
			target.URL = s.options.RecordLink.URL(target.Topic, target.Partition, target.Offset)
		}
		view.Attempts = append(view.Attempts, hopAttemptView{
			Number: a.Number, StartedAt: timestamp(a.StartedAt), EndedAt: timestamp(a.EndedAt), Workflow: s.viewWorkflow(a.Owner),
			Operation: optional(known.operations[a.Owner.Token]), Target: target, Outcome: a.Result,
			Category: optional(string(a.Category)), Error: optional(a.Error),
		})
	}
	return view
}
