package api

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
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
	list := func() (dlq.GroupPage, error) { return s.options.Database.Groups(ctx, wanted) }
	if wanted.Sort != dlq.GroupsByFirstSeen { // reads the counts of all groups
		limited := list
		list = func() (dlq.GroupPage, error) { return scan(ctx, s, limited) }
	}
	page, err := list()
	if err != nil {
		return err
	}
	view := groupsView{
		Groups:     make([]groupView, 0, len(page.Groups)),
		Pagination: cursorPaginationView{PageSize: wanted.PageSize, HasNext: page.Next != nil},
	}
	for i := range page.Groups {
		view.Groups = append(view.Groups, viewGroup(&page.Groups[i]))
	}
	if page.Next != nil {
		next := encodeGroupCursor(*page.Next, &wanted)
		view.Pagination.NextCursor = &next
	}
	return reply(c, http.StatusOK, view)
}

func (s *Server) group(ctx context.Context, c *fiber.Ctx, _ *query, id dlq.ID) error {
	g, err := s.options.Database.Group(ctx, id, "")
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
	g, err := s.options.Database.Group(ctx, id, "")
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

// groups reads the parameters of a list of groups.
func (q *query) groups() dlq.GroupQuery {
	wanted := dlq.GroupQuery{Topic: topicOf(q, "topic"), State: wordOf(q, "state", dlq.GroupStates),
		Sort: cmp.Or(wordOf(q, "sort", dlq.GroupSorts), dlq.GroupsByFirstSeen), PageSize: q.integer("page_size", defaultPageSize, maxPageSize)}
	if cursor, given := q.one("cursor"); given {
		after, err := decodeGroupCursor(cursor, &wanted)
		if err != nil {
			q.reject("cursor", "%s", err.Error())
		}
		wanted.After = &after
	}
	return wanted
}

// groupCursorVersion differs from the versions of the other lists, so that none accepts the cursor
// of another.
const (
	groupCursorVersion = 4
	groupCursorSize    = 29 // version, list, rank, id
)

var errGroupCursor = errors.New("belongs to a list with another sort, topic or state")

func encodeGroupCursor(position dlq.GroupCursor, list *dlq.GroupQuery) string {
	b := make([]byte, 1, groupCursorSize)
	b[0] = groupCursorVersion
	b = binary.BigEndian.AppendUint32(b, groupList(list))
	b = binary.BigEndian.AppendUint64(b, uint64(position.Rank))
	return cursorEncoding.EncodeToString(append(b, position.ID[:]...))
}

func decodeGroupCursor(cursor string, list *dlq.GroupQuery) (position dlq.GroupCursor, err error) {
	b, err := cursorEncoding.DecodeString(cursor) // which ignores line breaks
	if err != nil || len(b) != groupCursorSize || len(cursor) != cursorEncoding.EncodedLen(groupCursorSize) || b[0] != groupCursorVersion {
		return dlq.GroupCursor{}, errCursor
	}
	if binary.BigEndian.Uint32(b[1:]) != groupList(list) {
		return dlq.GroupCursor{}, errGroupCursor
	}
	position.Rank = int64(binary.BigEndian.Uint64(b[5:]))
	if position.Rank < 0 || position.Rank > lastTime.UnixMicro() { // the database has no such time
		return dlq.GroupCursor{}, errCursor
	}
	copy(position.ID[:], b[13:])
	return position, nil
}

// groupList tells lists of groups with another order or filter apart.
func groupList(q *dlq.GroupQuery) uint32 {
	h := fnv.New32a()
	for _, part := range []string{string(q.Sort), q.Topic, string(q.State)} {
		_, _ = h.Write(append([]byte(part), 0)) // never fails
	}
	return h.Sum32()
}
