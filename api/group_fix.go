package api

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

// Ends reads the end offsets of partitions.
type Ends interface {
	// EndOffsets returns the end offsets of the partitions of some topics, sorted by topic and partition. Topics that do not
	// exist or that the manager may not read are absent. The error is dlq.ErrUnavailable while Kafka is unavailable.
	EndOffsets(ctx context.Context, topics []string) ([]dlq.EndOffset, error)
}

// A fix reads the end offsets of maxFixTopics topics, and shows maxShownEnds offsets of each topic. Without limits, whoever
// writes dead letters could name any number of original topics.
const (
	maxFixTopics = 100
	maxShownEnds = 100
)

// fixedView is a group, and the end offsets of its original topics at the fix.
type fixedView struct {
	Group    groupView      `json:"group"`
	FixedAt  timestamp      `json:"fixed_at"`
	Marks    []markView     `json:"marks"`
	Unmarked []unmarkedView `json:"unmarked"`
	Note     string         `json:"note"`
}

// markView has up to maxShownEnds end offsets of a topic at the fix.
type markView struct {
	Topic      string    `json:"topic"`
	Partitions int       `json:"partitions"`
	Ends       []endView `json:"ends"`
}

type endView struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

// unmarkedView is an original topic whose end offsets were not read, and the reason.
type unmarkedView struct {
	Topic  string `json:"topic"`
	Reason string `json:"reason"`
}

func (s *Server) fixGroup(ctx context.Context, c *fiber.Ctx, _ *query, id dlq.ID) error {
	b := readBody(c, "reason", "ticket")
	fix := dlq.GroupFix{Ticket: b.ticket()}
	b.reason(c)
	if err := b.err(); err != nil {
		return err
	}
	g, err := s.guard.Group(ctx, id)
	if err != nil {
		return err
	}
	// The time is taken before the end offsets, so that every record beyond them was written after this time.
	if fix.At, err = s.guard.Now(ctx); err != nil {
		return err
	}
	unmarked, err := s.readEnds(ctx, &g, &fix)
	if err != nil {
		return err
	}
	if err := s.guard.FixGroup(ctx, auditOf(c), id, fix); err != nil {
		return err
	}
	if g, err = s.guard.Group(ctx, id); err != nil {
		return err
	}
	view := fixedView{Group: viewGroup(&g), FixedAt: timestamp(fix.At), Marks: viewMarks(ctx, fix.Ends), Unmarked: unmarked}
	view.Note = s.regressionNote(ctx, c, &g, &view)
	return reply(c, http.StatusOK, view)
}

// readEnds reads the end offsets of the group's original topics into the fix.
func (s *Server) readEnds(ctx context.Context, g *dlq.Group, fix *dlq.GroupFix) (unmarked []unmarkedView, err error) {
	unmarked = []unmarkedView{}
	leaveOut := func(topics []string, reason string) {
		for _, topic := range topics[:min(len(topics), maxFixTopics)] {
			unmarked = append(unmarked, unmarkedView{topic, reason})
		}
	}
	topics := originalTopics(g)
	if s.options.Ends == nil {
		leaveOut(topics, "Kafka is not configured")
		return unmarked, nil
	}
	wanted := topics[:min(len(topics), maxFixTopics)]
	if fix.Ends, err = s.options.Ends.EndOffsets(ctx, wanted); err != nil {
		return nil, unavailable("the ends of the original topics cannot be read from Kafka, so nothing was changed; try again later", err)
	}
	known := map[string]bool{}
	for _, end := range fix.Ends {
		known[end.Topic] = true
	}
	leaveOut(slices.DeleteFunc(slices.Clone(wanted), func(topic string) bool { return known[topic] }),
		"it does not exist in Kafka, or the manager may not read it")
	leaveOut(topics[len(wanted):], "the group has too many original topics")
	return unmarked, nil
}

// originalTopics are the original topics of the group's messages, the most frequent first.
func originalTopics(g *dlq.Group) []string {
	messages := map[string]int64{}
	for _, count := range g.Counts {
		if dlq.IsTopicName(count.OriginalTopic) {
			messages[count.OriginalTopic] += count.Messages
		}
	}
	return slices.SortedFunc(maps.Keys(messages), func(a, b string) int {
		return cmp.Or(cmp.Compare(messages[b], messages[a]), cmp.Compare(a, b))
	})
}

// viewMarks hides the offsets from principals who may fix only groups of some topics: the headers of a dead letter can name any
// topic as its origin.
func viewMarks(ctx context.Context, ends []dlq.EndOffset) []markView {
	seesAll, marks := accessOf(ctx).withinRoute() == "", []markView{}
	for _, end := range ends { // sorted by topic
		if last := len(marks) - 1; last < 0 || marks[last].Topic != end.Topic {
			marks = append(marks, markView{Topic: end.Topic, Ends: []endView{}})
		}
		mark := &marks[len(marks)-1]
		mark.Partitions++
		if seesAll && len(mark.Ends) < maxShownEnds {
			mark.Ends = append(mark.Ends, endView{end.Partition, end.Offset})
		}
	}
	return marks
}

// regressionNote explains which failures will open the group again.
func (s *Server) regressionNote(ctx context.Context, c *fiber.Ctx, g *dlq.Group, view *fixedView) string {
	byTime := "only records that were written after " + time.Time(view.FixedAt).UTC().Format(time.RFC3339) + " open the group"
	if len(view.Marks) == 0 {
		return "No end of an original topic is known, so the time of writing decides: " + byTime + " as a regression."
	}
	note := "A record at or beyond the end of its partition opens the group as a regression when it fails. Earlier records do not, however late they fail. " +
		"Where a record's origin offset is unknown, or its topic has no mark, the time of writing decides: " + byTime + "."
	if s.lacksOffset(ctx, c, g.Sample) {
		note += " The newest message of the group has no origin offset."
	}
	return note
}

// lacksOffset reports whether a message names no offset of its origin. If the message cannot be read, it returns false.
func (s *Server) lacksOffset(ctx context.Context, c *fiber.Ctx, id dlq.ID) bool {
	if id.IsZero() {
		return false
	}
	a := accessOf(ctx) // a principal who may change the group may lack the permission to read the message
	ctx = context.WithValue(ctx, accessKey{}, access{a.Principal, dlq.PermMessageRead})
	if s.reserveDetail(ctx, c, id, false) != nil {
		return false
	}
	d, err := s.guard.show(ctx, id, false)
	return err == nil && (d.Failure.Origin.Offset == nil || d.Failure.Origin.Partition == nil)
}
