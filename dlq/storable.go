package dlq

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// StorableText makes a string storable as PostgreSQL TEXT: invalid UTF-8 becomes the
// replacement character, and NUL its symbol. The record keeps the original bytes.
func StorableText(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 { // stack traces are long
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\u2400")
}

// maxShortText bounds the texts of headers that lists return, in bytes: a page has up to 200
// messages. The header keeps the whole text.
const maxShortText = 16 << 10

func shortText(s string) string { return bounded(s, maxShortText) }

// bounded is a storable text of at most limit bytes, or a few bytes more if the limit cuts a
// character in half.
func bounded(s string, limit int) string { return StorableText(s[:min(len(s), limit)]) }

// shortened is a text of at most limit characters, with an ellipsis if text is left out.
func shortened(s string, limit int) string {
	runes := []rune(s)
	if len(runes) > limit {
		runes = append(runes[:limit-1], '…')
	}
	return string(runes)
}

// maxStoredTopic is the documented width of the columns of topics, in characters.
const maxStoredTopic = 255

// storableTopic makes a topic's name storable. Only a name from a header is so long that it is truncated. The truncated
// name is still too long for Kafka, so it never becomes the name of another topic.
func storableTopic(s string) string {
	s = StorableText(s)
	if len(s) <= maxStoredTopic {
		return s
	}
	if runes := []rune(s); len(runes) > maxStoredTopic {
		return string(runes[:maxStoredTopic])
	}
	return s
}

// storableTime keeps a time that JSON can hold. Any other time becomes zero, which stands for unknown: producers
// that confuse milliseconds with a finer unit write years beyond 9999.
func storableTime(t time.Time) time.Time {
	if t.IsZero() || t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Millisecond)
}

// StorableCount limits a count, which a header can claim, to the range of PostgreSQL's INT.
func StorableCount(n int) int { return min(max(n, 0), math.MaxInt32) }
