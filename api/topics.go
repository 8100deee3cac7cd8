package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

// A page with a high number costs more than the first page. Cursors cost the same for every page.
const (
	defaultPageSize = 20
	maxPageSize     = 200
	maxPage         = 1_000_000
)

type topicView struct {
	DLQTopic      string               `json:"dlq_topic"`
	OriginalTopic string               `json:"original_topic"`
	Counts        map[dlq.Status]int64 `json:"counts"`
	OldestPending *timestamp           `json:"oldest_pending"`
	NewestArrival *timestamp           `json:"newest_arrival"`
	Lost          int64                `json:"lost"`
	LostAt        *timestamp           `json:"lost_at"`
	IngestHeld    bool                 `json:"ingest_held"`
}

func (s *Server) topics(ctx context.Context, c *fiber.Ctx, _ *query) error {
	summaries, err := s.guard.Topics(ctx)
	if err != nil {
		return err
	}
	pending := int64(0)
	for _, summary := range summaries {
		pending += summary.Counts[dlq.StatusPending]
	}
	reached := func(n, limit int64) bool { return limit > 0 && n >= limit }
	return reply(c, http.StatusOK, map[string][]topicView{"topics": views(summaries, func(t *dlq.TopicSummary) topicView {
		return topicView{
			DLQTopic: t.DLQTopic, OriginalTopic: t.OriginalTopic, Counts: countsOf(t.Counts),
			OldestPending: optionalTime(t.OldestPending), NewestArrival: optionalTime(&t.NewestArrival), Lost: t.Lost, LostAt: optionalTime(t.LostAt),
			IngestHeld: reached(pending, s.options.MaxPending) || reached(t.Counts[dlq.StatusPending], s.options.MaxPendingPerTopic),
		}
	})})
}

// countsOf has a count for every status. The count is zero for a status without messages.
func countsOf(counts map[dlq.Status]int64) map[dlq.Status]int64 {
	all := make(map[dlq.Status]int64, len(dlq.Statuses))
	for _, status := range dlq.Statuses {
		all[status] = counts[status]
	}
	return all
}

type listView struct {
	Messages   []listedView   `json:"messages"`
	Pagination paginationView `json:"pagination"`
}

type listedView struct {
	messageFields
	DLQTopic   string  `json:"dlq_topic"`
	ErrorClass *string `json:"error_class"`
	GroupID    *dlq.ID `json:"group_id"`
	stateFields
}

func (s *Server) viewMessages(ctx context.Context, messages []dlq.Message, areArchived bool) ([]listedView, error) {
	verdicts, err := s.verdicts(ctx, views(messages, func(m *dlq.Message) *dlq.Message { return m }))
	return views(messages, func(m *dlq.Message) listedView {
		return listedView{fieldsOf(m), m.DLQTopic, optional(m.ErrorClass), optional(m.GroupID), s.viewState(m, verdicts[m.ID], areArchived)}
	}), err
}

type paginationView struct {
	TotalCount      int64   `json:"total_count"`
	Page            int     `json:"page"`
	PageSize        int     `json:"page_size"`
	HasNext         bool    `json:"has_next"`
	TotalCountExact bool    `json:"total_count_exact"`
	NextCursor      *string `json:"next_cursor"`
	// Searched is absent unless the list searches in records.
	Searched *searchedView `json:"searched,omitempty"`
}

// searchedView counts the messages that a search has read. UpTo is the time at which the last of these messages was stored.
type searchedView struct {
	Messages int        `json:"messages"`
	UpTo     *timestamp `json:"up_to"`
	Complete bool       `json:"complete"`
}

func viewSearched(searched *dlq.Searched) *searchedView {
	view := &searchedView{Messages: searched.Messages, Complete: searched.IsComplete}
	if searched.Last != nil {
		view.UpTo = optionalTime(&searched.Last.CreatedAt)
	}
	return view
}

func (s *Server) list(ctx context.Context, c *fiber.Ctx, q *query, topic string) error {
	return s.listMessages(ctx, c, q, dlq.Filter{Topic: topic})
}

// listMessages lists the messages that the query selects. scope names the topic, and says whether they are in the archive.
func (s *Server) listMessages(ctx context.Context, c *fiber.Ctx, q *query, scope dlq.Filter) error {
	wanted := q.list(scope)
	if err := q.err(); err != nil {
		return err
	}
	if err := checkGiven(s, q.values, "page", "page_size", "cursor", "status"); err != nil {
		return err
	}
	page, err := scan(ctx, s, readsMany(ctx, &wanted), func() (dlq.Page, error) { return s.guard.List(ctx, wanted) })
	if err != nil {
		return err
	}
	view := listView{
		Pagination: paginationView{
			TotalCount: page.Total, Page: wanted.Page, PageSize: wanted.PageSize,
			HasNext: page.HasNext, TotalCountExact: page.TotalExact,
		},
	}
	if view.Messages, err = s.viewMessages(ctx, page.Messages, scope.Archived); err != nil {
		return err
	}
	var last *dlq.Keyset
	if n := len(page.Messages); n > 0 {
		last = new(page.Messages[n-1].Keyset())
	}
	if page.Searched != nil {
		last = page.Searched.Last
		view.Pagination.Searched = viewSearched(page.Searched)
	}
	if page.HasNext && last != nil {
		view.Pagination.NextCursor = new(messageCursor(*last, wanted.OldestFirst))
	}
	return reply(c, http.StatusOK, view)
}

var listParameters = slices.Concat([]string{"page", "page_size", "cursor", "sort"}, filterParameters())

func (q *query) list(scope dlq.Filter) dlq.ListQuery {
	wanted := dlq.ListQuery{
		Filter:   q.filter(scope.Topic),
		Page:     q.number("page", 1, maxPage),
		PageSize: q.number("page_size", defaultPageSize, maxPageSize),
	}
	wanted.Archived = scope.Archived
	switch {
	case !wanted.IsSearch() || wanted.Page <= 1:
	case wanted.Archived:
		q.reject("page", "must be 1 with a filter by error, class, group, header, payload and the like; use the cursor")
	default:
		q.reject("page", "must be 1 with a header, a payload, verified or not; use the cursor")
	}
	wanted.OldestFirst = wordOf(q.body, "sort", []string{"created_at", "-created_at"}) == "created_at"
	wanted.After = q.keyset(wanted.OldestFirst)
	return wanted
}
