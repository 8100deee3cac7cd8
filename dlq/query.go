package dlq

import (
	"cmp"
	"time"
)

// CountLimit is the largest total that is counted exactly. A larger total is reported as
// "at least CountLimit", because the cost of counting grows with the number of rows.
const CountLimit = 10_000

// Keyset is the sort key of a message in lists: when it was stored, then the order of arrival.
type Keyset struct {
	CreatedAt time.Time
	Seq       int64
}

// Keyset is the sort key of the message.
func (m *Message) Keyset() Keyset { return Keyset{m.CreatedAt, m.Seq} }

// Compare is negative when k is older than the other, and positive when k is newer.
func (k Keyset) Compare(other Keyset) int {
	return cmp.Or(k.CreatedAt.Compare(other.CreatedAt), cmp.Compare(k.Seq, other.Seq))
}

// Place is the place of an entry in a list that is sorted by a number, then by the id. The number is a count, or a time in
// microseconds of the Unix epoch.
type Place struct {
	Rank int64
	ID   ID
}

// PlaceAt is the place of an entry in a list that is sorted by a time.
func PlaceAt(at time.Time, id ID) Place { return Place{at.UnixMicro(), id} }

// At is the time of an entry in a list that is sorted by a time.
func (p Place) At() time.Time { return time.UnixMicro(p.Rank).UTC() }

// PageOf is a page of a list that is sorted by Place.
type PageOf[T any] struct {
	Entries []T
	// Next is the place of the last entry; nil on the last page.
	Next *Place
}

// ListQuery asks for a page of messages, newest first unless OldestFirst.
type ListQuery struct {
	Filter
	// Page counts from 1 and is ignored when After is set.
	Page     int
	PageSize int
	// After is the key of the last message on the previous page; nil for the first page.
	After       *Keyset
	OldestFirst bool
	// IsBare lists messages without their payloads, and without a total.
	IsBare bool
	// SearchLimit is how many messages a search looks at; 0 stands for the constant SearchLimit.
	SearchLimit int
	// VerifyGroups are set by the store.
	VerifyGroups *VerifyGroups
}

// A list whose filter is a search (Filter.IsSearch) looks at up to SearchLimit messages, for at most SearchTime. The next
// page continues after Searched.Last.
const (
	SearchLimit = 20_000
	SearchTime  = 2 * time.Second
)

// Searched is how far a search has looked.
type Searched struct {
	// Messages is how many messages the search has looked at, and Last the last of these; nil if there were none.
	Messages int
	Last     *Keyset
	// IsComplete is set when no message is left to look at.
	IsComplete bool
}

// Page is a page of messages.
type Page struct {
	// Messages may be fewer than the page's size although HasNext is set: more would exceed ListBytes.
	Messages []Message
	// Total is exact when TotalExact is set. Otherwise Total is CountLimit, and more messages match.
	Total      int64
	TotalExact bool
	HasNext    bool
	// Searched is set if the filter of the query is a search. Then Total counts only the messages of the page, and HasNext
	// is false only if the search is complete.
	Searched *Searched
}

// Limits of a payload and of a page, in bytes. Lists leave out larger payloads.
const (
	ListPayload = 64 << 10
	ListBytes   = 4 << 20
)

// ListRoom is how many bytes a page has taken.
type ListRoom struct {
	taken  int
	isFull bool
}

// Take reports whether the page takes an entry of so many bytes. A page always takes its first entry. After an entry that
// was not taken, it takes no more.
func (r *ListRoom) Take(bytes int) bool {
	r.isFull = r.isFull || r.taken > 0 && r.taken+bytes > ListBytes
	r.taken += bytes
	return !r.isFull
}

// ListSize is the largest size that the message can have in the JSON of a list, in bytes. JSON writes a
// control character as six bytes, and the fields that are not counted are short.
func (m *Message) ListSize() int {
	return len(m.Payload) + 6*(len(m.ErrorMessage)+len(m.ErrorClass)) + 1<<10
}

// Listed is the message as in lists, without a large payload.
func (m *Message) Listed() Message {
	listed := *m
	if len(listed.Payload) > ListPayload {
		listed.Payload, listed.OmittedPayload = nil, len(listed.Payload)
	}
	return listed
}

// TopicSummary counts the messages of a dead-letter topic.
type TopicSummary struct {
	DLQTopic      string
	OriginalTopic string // of the newest message
	Counts        map[Status]int64
	// OldestPending is nil when no message is PENDING.
	OldestPending *time.Time
	NewestArrival time.Time
	// Lost is the number of the topic's offsets that Kafka deleted before they were read. LostAt is when such a loss was
	// last detected; nil for never.
	Lost   int64
	LostAt *time.Time
}
