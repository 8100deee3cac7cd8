package api

import (
	"context"
	"net/url"
	"time"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

// Limits of a change of a group.
const (
	maxOwner     = 200
	maxTicket    = 1000
	maxNote      = 2000
	maxHold      = 366 * 24 * time.Hour
	maxHoldCount = 1_000_000_000
)

func (s *Server) changeGroup(ctx context.Context, c *fiber.Ctx, q *query, id dlq.ID) error {
	b := readBody(c, "owner", "ticket", "note", "state", "until", "reason")
	change := b.groupChange(time.Now())
	b.reason(c)
	if err := b.err(); err != nil {
		return err
	}
	if err := s.guard.ChangeGroup(ctx, auditOf(c), id, change); err != nil {
		return err
	}
	return s.group(ctx, c, q, id)
}

// groupChange reads a change of a group. An empty text removes the stored text.
func (b *body) groupChange(now time.Time) dlq.GroupChange {
	change := dlq.GroupChange{Owner: b.optionalText("owner", maxOwner), Ticket: b.ticket(), Note: b.optionalText("note", maxNote)}
	change.State, change.Hold = b.groupState(now)
	_, hasUntil := b.fields["until"]
	if change == (dlq.GroupChange{}) && !hasUntil && len(b.details) == 0 {
		b.reject("body", "must have owner, ticket, note or state")
	}
	return change
}

func (b *body) optionalText(name string, limit int) *string {
	text, given := b.text(name, limit)
	if !given {
		return nil
	}
	return &text
}

// ticket reads the URL of a ticket. Pages link to it, so it must not be a javascript: URL.
func (b *body) ticket() *string {
	ticket := b.optionalText("ticket", maxTicket)
	if ticket == nil || *ticket == "" {
		return ticket
	}
	if link, err := url.Parse(*ticket); err != nil || link.Scheme != "http" && link.Scheme != "https" || link.Host == "" {
		b.reject("ticket", "must be an http or https URL, or empty")
	}
	return ticket
}

// groupState reads a state, and the conditions that end it. A hold without a condition would mute the group for ever.
func (b *body) groupState(now time.Time) (state *dlq.GroupState, hold dlq.Hold) {
	if text, given := b.one("state"); given {
		state = new(dlq.GroupState(text))
		switch *state {
		case dlq.GroupOpen, dlq.GroupHeld:
		case dlq.GroupFixed:
			b.reject("state", "must be open or held; POST to fixed below this path to mark a fix")
		default:
			b.reject("state", "must be open or held")
		}
	}
	isHeld := state != nil && *state == dlq.GroupHeld
	until := b.nested("until", "at", "count", "rate")
	switch {
	case until != nil && !isHeld:
		b.reject("until", "needs the state held")
	case until != nil:
		hold = until.hold(now)
	case isHeld:
		b.reject("until", "is required for the state held: at, count or rate")
	}
	return state, hold
}

func (b *body) hold(now time.Time) dlq.Hold {
	hold := dlq.Hold{Until: b.instant("at"), Count: int64(b.integer("count", 1, maxHoldCount)), Rate: int64(b.integer("rate", 1, maxHoldCount))}
	switch {
	case b.fields != nil && len(b.fields) == 0:
		b.reject("at", "is required, unless there is a count or a rate")
	case !hold.Until.IsZero() && !hold.Until.After(now):
		b.reject("at", "must be in the future")
	case hold.Until.After(now.Add(maxHold)):
		b.reject("at", "must be at most %d days ahead", maxHold/(24*time.Hour))
	}
	return hold
}
