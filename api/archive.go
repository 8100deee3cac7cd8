package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

// stateFields tell whether a consumer has processed a delivered message, and when a message is archived and purged. Verified is
// null for messages that were not delivered. The times are null for messages that have not ended, since such messages stay.
type stateFields struct {
	Verified       *string    `json:"verified"`
	VerifiedReason *string    `json:"verified_reason"`
	ArchiveAt      *timestamp `json:"archive_at"`
	PurgeAt        *timestamp `json:"purge_at"`
}

func (s *Server) viewState(m *dlq.Message, verdict dlq.Verdict, isArchived bool) stateFields {
	view := stateFields{Verified: optional(string(verdict.Verified)), VerifiedReason: optional(string(verdict.Reason))}
	if m.Status != dlq.StatusResolved && m.Status != dlq.StatusDead {
		return view
	}
	after := func(age time.Duration) *timestamp {
		if age == 0 {
			return nil
		}
		return new(timestamp(m.UpdatedAt.Add(age)))
	}
	view.PurgeAt = after(s.options.PurgeAfter)
	if !isArchived {
		view.ArchiveAt = after(s.options.ArchiveAfter)
	}
	return view
}

var archiveParameters = slices.Concat([]string{"topic"}, listParameters)

func (s *Server) archivedMessages(ctx context.Context, c *fiber.Ctx, q *query) error {
	if _, given := q.one("topic"); !given {
		q.reject("topic", "is required: a dead-letter topic or an original topic")
	}
	return s.listMessages(ctx, c, q, dlq.Filter{Topic: q.topicName(), Archived: true})
}

func (s *Server) restoreMessage(ctx context.Context, c *fiber.Ctx, q *query, id dlq.ID) error {
	return describeNotFound(marks("restored", s.guard.Restore)(ctx, c, q, id), "archived message", id)
}

type archiveRunView struct {
	Schedule string `json:"schedule"`
	Message  string `json:"message"`
}

func (s *Server) runArchive(ctx context.Context, c *fiber.Ctx, _ *query) error {
	if err := readReason(c); err != nil {
		return err
	}
	id, err := s.retries.TriggerArchive(ctx, auditOf(c))
	if errors.Is(err, dlq.ErrNotFound) {
		return unavailable("the schedule of the archive does not exist; a worker creates it when it starts", err)
	}
	if err != nil {
		return err
	}
	return reply(c, http.StatusAccepted, archiveRunView{Schedule: id, Message: "the archive runs now, unless a run is active"})
}
