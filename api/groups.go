package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
	"dlqmanager/dlq/fingerprint"
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
	readsAll := wanted.Sort != dlq.GroupsByFirstSeen // the other orders read the counts of all groups
	page, err := scan(ctx, s, readsAll, func() (dlq.PageOf[dlq.Group], error) { return s.guard.Groups(ctx, wanted) })
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, groupsView{views(page.Entries, viewGroup), pagination(groupList(&wanted), wanted.PageSize, page.Next)})
}

func (s *Server) group(ctx context.Context, c *fiber.Ctx, _ *query, id dlq.ID) error {
	g, err := s.guard.Group(ctx, id)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, viewGroup(&g))
}

// explainGroup adds to a message why it is in its group. If the group does not exist, another program has written its id.
func (s *Server) explainGroup(ctx context.Context, view *detailView, id dlq.ID) error {
	if id.IsZero() {
		return nil
	}
	g, err := s.guard.Group(ctx, id)
	if err == nil {
		view.GroupedBy = new(viewGroupedBy(&g.Fingerprint))
	}
	return describeGone(err)
}

var groupParameters = []string{"topic", "state", "sort", "cursor", "page_size"}

func (q *query) groups() dlq.GroupQuery {
	wanted := dlq.GroupQuery{Topic: q.topicName(), State: wordOf(q.body, "state", dlq.GroupStates),
		Sort: cmp.Or(wordOf(q.body, "sort", dlq.GroupSorts), dlq.GroupsByFirstSeen), PageSize: q.number("page_size", defaultPageSize, maxPageSize)}
	wanted.After = cursorOf[dlq.Place](q, groupList(&wanted))
	if place := wanted.After; place != nil && (place.Rank < 0 || place.Rank > lastTime.UnixMicro()) { // the database has no such time
		q.reject("cursor", badCursor)
	}
	return wanted
}

// groupList is the name of a list of groups. It includes the order and the filters, so that a cursor of another order or other
// filters is refused.
func groupList(q *dlq.GroupQuery) string {
	return fmt.Sprintf("groups by %s, topic %q, state %q", q.Sort, q.Topic, q.State)
}

type groupView struct {
	ID        dlq.ID               `json:"id"`
	Title     string               `json:"title"`
	GroupedBy groupedByView        `json:"grouped_by"`
	Counts    map[dlq.Status]int64 `json:"counts"`
	Topics    []groupTopicView     `json:"topics"`
	FirstSeen timestamp            `json:"first_seen"`
	// LastSeen, Arrived, LastHour, RegressedBy and the count of the hold are null if they include
	// messages that the sender may not see.
	LastSeen    *timestamp       `json:"last_seen"`
	Arrived     *int64           `json:"arrived"`
	LastHour    *int64           `json:"last_hour"`
	Sample      *groupSampleView `json:"sample"`
	Owner       *string          `json:"owner"`
	Ticket      *string          `json:"ticket"`
	Note        *string          `json:"note"`
	State       dlq.GroupState   `json:"state"`
	StateAt     timestamp        `json:"state_at"`
	StateReason *string          `json:"state_reason"`
	Hold        *holdView        `json:"hold"`
	RegressedBy *dlq.ID          `json:"regressed_by"`
}

type groupedByView struct {
	Version int              `json:"version"`
	Rule    fingerprint.Rule `json:"rule"`
	Scope   string           `json:"scope"`
	Class   *string          `json:"class"`
	Frame   *string          `json:"frame"`
	Message *string          `json:"message"`
}

type groupTopicView struct {
	DLQTopic      string               `json:"dlq_topic"`
	OriginalTopic string               `json:"original_topic"`
	Counts        map[dlq.Status]int64 `json:"counts"`
}

type groupSampleView struct {
	MessageID dlq.ID `json:"message_id"`
}

// holdView says when a held group opens: at the time Until, after Count more messages, or when Rate messages arrive in an hour.
type holdView struct {
	Until *timestamp `json:"until"`
	Count *int64     `json:"count"`
	Rate  *int64     `json:"rate"`
}

func viewGroup(g *dlq.Group) groupView {
	view := groupView{
		ID: g.ID, Title: dlq.GroupTitle(&g.Fingerprint), GroupedBy: viewGroupedBy(&g.Fingerprint),
		Counts: countsOf(nil), Topics: []groupTopicView{}, FirstSeen: timestamp(g.FirstSeen),
		Owner: optional(g.Owner), Ticket: optional(g.Ticket), Note: optional(g.Note),
		State: g.State, StateAt: timestamp(g.StateAt), StateReason: optional(g.StateReason),
	}
	for _, count := range g.Counts { // sorted by topics
		view.Counts[count.Status] += count.Messages
		last := len(view.Topics) - 1
		if last < 0 || view.Topics[last].DLQTopic != count.DLQTopic || view.Topics[last].OriginalTopic != count.OriginalTopic {
			view.Topics = append(view.Topics, groupTopicView{count.DLQTopic, count.OriginalTopic, countsOf(nil)})
			last++
		}
		view.Topics[last].Counts[count.Status] = count.Messages
	}
	if !g.Sample.IsZero() {
		view.Sample = &groupSampleView{g.Sample}
	}
	hold := g.Hold
	if g.IsPartial {
		hold.Count = 0
	} else {
		view.LastSeen = optionalTime(&g.LastSeen)
		view.Arrived, view.LastHour, view.RegressedBy = &g.Arrived, &g.LastHour, optional(g.RegressedBy)
	}
	view.Hold = viewHold(hold)
	return view
}

// viewHold is null for a group that is not held.
func viewHold(h dlq.Hold) *holdView {
	if h.IsZero() {
		return nil
	}
	return &holdView{Until: optionalTime(&h.Until), Count: optional(h.Count), Rate: optional(h.Rate)}
}

func viewGroupedBy(f *fingerprint.Fingerprint) groupedByView {
	return groupedByView{
		Version: f.Version, Rule: f.Rule, Scope: f.Scope,
		Class: optional(f.Class), Frame: optional(f.Frame), Message: optional(f.Message),
	}
}
