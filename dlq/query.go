package dlq

import (
	"cmp"
	"time"
)

// CountLimit is the largest total that is counted exactly. A larger total is reported as
// "at least CountLimit", because the cost of counting grows with the number of rows.
const CountLimit = 10_000

// Keyset is the sort key of a message in lists: the time at which it was stored, then the
// order of arrival.
type Keyset struct {
	CreatedAt time.Time
	Seq       int64
}

// Keyset is the sort key of the message.
func (m *Message) Keyset() Keyset { return Keyset{m.CreatedAt, m.Seq} }

// Compare is negative when k is older than the other, and positive when it is newer.
func (k Keyset) Compare(other Keyset) int {
	return cmp.Or(k.CreatedAt.Compare(other.CreatedAt), cmp.Compare(k.Seq, other.Seq))
}

// ListQuery asks for one page of messages, newest first unless OldestFirst.
type ListQuery struct {
	Filter
	// Page counts from 1 and is ignored when After is set.
	Page     int
	PageSize int
	// After is the key of the last message on the previous page; nil for the first page.
	After       *Keyset
	OldestFirst bool
	// SearchLimit is how many messages a search looks at; 0 stands for the constant.
	SearchLimit int
	// VerifyGroups are those of the store, which sets them.
	VerifyGroups *VerifyGroups
}

// SearchLimit is how many messages a list of IsSearch looks at, unless it takes SearchTime
// before. Searches continue after Searched.Last.
const (
	SearchLimit = 20_000
	SearchTime  = 2 * time.Second
)

// Searched is how far a search has looked.
type Searched struct {
	// Messages is how many it has looked at, and Last the last of them; nil if it is 0.
	Messages int
	Last     *Keyset
	// IsComplete is set when none is left.
	IsComplete bool
}

// Page is one page of messages.
type Page struct {
	Messages []Message
	// Total is exact when TotalExact is set. Otherwise it is CountLimit, and more match.
	Total      int64
	TotalExact bool
	HasNext    bool
	// Searched is nil unless the query has a filter of IsSearch. Then Total counts only the
	// messages of the page, and HasNext is unset only if the search is complete.
	Searched *Searched
}

// TopicSummary counts the messages of one dead-letter topic.
type TopicSummary struct {
	DLQTopic      string
	OriginalTopic string // of the newest message
	Counts        map[Status]int64
	// OldestPending is nil when no message is PENDING.
	OldestPending *time.Time
	NewestArrival time.Time
	// Lost is how many offsets of the topic Kafka deleted before they were read. LostAt is
	// when that was last detected; nil when it never happened.
	Lost   int64
	LostAt *time.Time
}
