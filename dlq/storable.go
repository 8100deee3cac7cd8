package dlq

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Text makes a string storable as PostgreSQL TEXT: invalid UTF-8 becomes the
// replacement character and NUL the symbol for it. The bytes themselves stay in
// the record.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\u2400")
}

// maxStoredTopic is the documented width of a topic's column, in characters.
const maxStoredTopic = 255

// topicText makes a topic's name storable. Kafka's names end at 249 characters, so
// a name that is cut here, which only a header can have claimed, is cut to one
// that Kafka still refuses: it never becomes another topic's name.
func topicText(s string) string {
	s = Text(s)
	if len(s) <= maxStoredTopic {
		return s
	}
	if runes := []rune(s); len(runes) > maxStoredTopic {
		return string(runes[:maxStoredTopic])
	}
	return s
}

// storableTime keeps the time of a record when it is one that people and JSON can
// write. Producers that mix up milliseconds with something finer claim years
// beyond 9999; such a time is unknown, which is the zero time.
func storableTime(t time.Time) time.Time {
	if t.IsZero() || t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Millisecond)
}

// StorableCount keeps a count inside PostgreSQL's INT. Headers can claim any number.
func StorableCount(n int) int { return min(max(n, 0), math.MaxInt32) }

// Storable is the specification as a store keeps it. It shares nothing with s.
func (s BulkSpec) Storable() BulkSpec {
	s.Filter = s.storable()
	s.Reason = Text(s.Reason)
	s.RateLimit = StorableCount(s.RateLimit)
	s.Order = Order(Text(string(s.Order)))
	if s.Ramp != nil {
		ramp := *s.Ramp
		ramp.Steps = slices.Clone(ramp.Steps)
		s.Ramp = &ramp
	}
	return s
}
