package dlq

import (
	"encoding/json"
	"time"
)

// Header is one Kafka record header. Headers keep their order and duplicates,
// and a nil Value (Kafka's null) differs from an empty one.
type Header struct {
	Key   string
	Value []byte
}

// Record is the dead letter as it was consumed, byte for byte. A nil Key or
// Value is Kafka's null.
type Record struct {
	Key       []byte
	Value     []byte
	Headers   []Header
	Timestamp time.Time
}

// Source is the position in Kafka that a dead letter was read from. Two records with the
// same source are the same record. A topic that was deleted and created again has another
// TopicID, and so other sources.
type Source struct {
	TopicID   [16]byte
	Partition int32
	Offset    int64
}

// Origin is where the message was before it failed, as far as its headers or the name of
// its dead-letter topic show.
type Origin struct {
	Topic string
	// Partition and Offset are nil when unknown.
	Partition *int32
	Offset    *int64
	// Family is the header family that the origin was read from, or "topic-name".
	Family string
}

// Failure is the origin and the error of a dead letter, as far as its headers or the name
// of its topic show.
type Failure struct {
	Origin       Origin
	ErrorMessage string
	// ErrorClass is the exception's type.
	ErrorClass string
	StackTrace string
}

// Arrival is a dead letter that is about to be stored.
type Arrival struct {
	ID       ID
	DLQTopic string
	Source   Source
	Failure
	Record     Record
	Payload    json.RawMessage
	MaxRetries int
	// RetryCount and PreviousID come from the previous message when this one came back.
	RetryCount int
	PreviousID ID
}

// Status is the first status of an arrival: PENDING, or DEAD when it came back and its
// retries are used up.
func (a *Arrival) Status() Status {
	if a.RetryCount >= a.MaxRetries {
		return StatusDead
	}
	return StatusPending
}

// Storable is the arrival as a store keeps it. The key, value and headers of the record are
// bytes and do not change.
func (a *Arrival) Storable() Arrival {
	s := *a
	s.DLQTopic = storableTopic(s.DLQTopic)
	s.Origin.Topic = storableTopic(s.Origin.Topic)
	s.Origin.Family = StorableText(s.Origin.Family)
	s.ErrorMessage = StorableText(s.ErrorMessage)
	s.ErrorClass = StorableText(s.ErrorClass)
	s.StackTrace = StorableText(s.StackTrace)
	s.Record.Timestamp = storableTime(s.Record.Timestamp)
	s.RetryCount = StorableCount(s.RetryCount)
	s.MaxRetries = StorableCount(s.MaxRetries)
	return s
}
