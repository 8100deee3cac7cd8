package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

type groupsView struct {
	Groups     []groupView          `json:"groups"`
	Pagination cursorPaginationView `json:"pagination"`
}

func (s *Server) groups(ctx context.Context, c *fiber.Ctx, q *query) error {
	wanted := q.groups()
	if err := q.err(); err != nil {
		return err
	}
	readsAll := wanted.Sort != dlq.GroupsByFirstSeen // the counts of all groups
	page, err := scan(ctx, s, readsAll, func() (dlq.GroupPage, error) { return s.guard.Groups(ctx, wanted) })
	if err != nil {
		return err
	}
	view := groupsView{views(page.Groups, viewGroup), cursorPaginationView{PageSize: wanted.PageSize, HasNext: page.Next != nil}}
	if page.Next != nil {
		view.Pagination.NextCursor = new(encodeGroupCursor(*page.Next, &wanted))
	}
	return reply(c, http.StatusOK, view)
}

func (s *Server) group(ctx context.Context, c *fiber.Ctx, _ *query, id dlq.ID) error {
	g, err := s.guard.Group(ctx, id)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, viewGroup(&g))
}

// explainGroup says in a message why it is in its group. A group that does not exist was
// written by another program.
func (s *Server) explainGroup(ctx context.Context, view *detailView, id dlq.ID) error {
	if id.IsZero() {
		return nil
	}
	g, err := s.guard.Group(ctx, id)
	switch {
	case errors.Is(err, dlq.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	view.GroupedBy = new(viewGroupedBy(&g.Fingerprint))
	return nil
}

var groupParameters = []string{"topic", "state", "sort", "cursor", "page_size"}

func (q *query) groups() dlq.GroupQuery {
	wanted := dlq.GroupQuery{Topic: q.topicName(), State: wordOf(q.body, "state", dlq.GroupStates),
		Sort: cmp.Or(wordOf(q.body, "sort", dlq.GroupSorts), dlq.GroupsByFirstSeen), PageSize: q.number("page_size", defaultPageSize, maxPageSize)}
	wanted.After = cursorOf(q, func(cursor string) (dlq.GroupCursor, error) { return decodeGroupCursor(cursor, &wanted) })
	return wanted
}
