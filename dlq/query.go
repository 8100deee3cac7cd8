package dlq

import (
	"cmp"
	"time"
)

// CountLimit is how far a total is counted exactly. Beyond it a list says that
// there are more; counting them all would cost more the more there are.
const CountLimit = 10_000

// Keyset is where a message stands in lists: at the time when it was stored, and
// among those of one moment in the order of arrival.
type Keyset struct {
	CreatedAt time.Time
	Seq       int64
}

// Keyset is where the message stands in lists.
func (m *Message) Keyset() Keyset { return Keyset{m.CreatedAt, m.Seq} }

// Compare is negative when p is the older place, and positive when it is the newer.
func (p Keyset) Compare(other Keyset) int {
	return cmp.Or(p.CreatedAt.Compare(other.CreatedAt), cmp.Compare(p.Seq, other.Seq))
}

// ListQuery asks for one page of messages, newest first unless OldestFirst.
type ListQuery struct {
	Filter
	// Page counts from 1 and is ignored when After is set.
	Page     int
	PageSize int
	// After is the place of the last message of the page before; nil starts over.
	After       *Keyset
	OldestFirst bool
}

// Page is one page of messages.
type Page struct {
	Messages []Message
	// Total is exact when TotalExact, else at least CountLimit.
	Total      int64
	TotalExact bool
	HasNext    bool
}

// TopicSummary counts the messages of one dead-letter topic.
type TopicSummary struct {
	DLQTopic      string
	OriginalTopic string // of the newest message
	Counts        map[Status]int64
	// OldestPending is nil when nothing is pending.
	OldestPending *time.Time
	NewestArrival time.Time
	// Lost is how many offsets of the topic Kafka had deleted before they were read,
	// and LostAt when that was last noticed; nil when it never happened.
	Lost   int64
	LostAt *time.Time
}
