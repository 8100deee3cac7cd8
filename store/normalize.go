package store

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"dlqmanager/dlq"
)

// What both stores make of an arrival, so that they keep the same of it. The
// record's key, value and headers are bytes and are never touched.

// text makes a string storable as TEXT. It copies only what needs mending.
func text(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return dlq.Text([]byte(s))
}

// maxTopic is the documented width of a topic's column.
const maxTopic = 255

// topicText makes a topic's name storable. Kafka's names end at 249 characters,
// so a name that is cut here, which only a header can have claimed, is cut to
// one that Kafka will still refuse: it never becomes another topic's name.
func topicText(s string) string {
	s = text(s)
	if len(s) <= maxTopic {
		return s
	}
	if runes := []rune(s); len(runes) > maxTopic {
		return string(runes[:maxTopic])
	}
	return s
}

// recordTime keeps the time of a record when it is one that people and JSON can
// write. Producers that mix up milliseconds with something finer claim years
// beyond 9999; such a time is unknown, which is the zero time.
func recordTime(t time.Time) time.Time {
	if t.IsZero() || t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Millisecond)
}

// count32 keeps a count inside PostgreSQL's INT. Headers can claim any number.
func count32(n int) int {
	return min(max(n, 0), math.MaxInt32)
}

// normalized is the arrival as it is kept.
func normalized(a dlq.Arrival) dlq.Arrival {
	a.DLQTopic = topicText(a.DLQTopic)
	a.Origin.Topic = topicText(a.Origin.Topic)
	a.Origin.Family = text(a.Origin.Family)
	a.ErrorMessage = text(a.ErrorMessage)
	a.ErrorClass = text(a.ErrorClass)
	a.StackTrace = text(a.StackTrace)
	a.Record.Timestamp = recordTime(a.Record.Timestamp)
	a.RetryCount = count32(a.RetryCount)
	a.MaxRetries = count32(a.MaxRetries)
	return a
}

// ending is a Result as the two cases that Result.After can come to, so that a
// statement can end many retries at once by the domain's own rule.
type ending struct {
	left  string // the status when retries are left
	none  string // the status when none is left
	delta int    // the change of the retry count
}

func endingOf(r dlq.Result) ending {
	left, count := r.After(1, 2)
	none, _ := r.After(1, 1)
	return ending{left: string(left), none: string(none), delta: count - 1}
}

// isAttempt reports whether a retry that ended like this is kept as an attempt:
// it was made, and it did not deliver.
func isAttempt(r dlq.Result) bool {
	return r != dlq.ResultDelivered && !isUndone(r)
}

// isUndone reports whether the claim is taken back, as if it had never been.
func isUndone(r dlq.Result) bool {
	return r == dlq.ResultReturned || r == dlq.ResultSkipped
}
