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

// Source is the place in Kafka that a dead letter was read from. Two records
// with the same source are the same record. TopicID, not the name, is part of
// it: a topic deleted and created again is another topic.
type Source struct {
	TopicID   [16]byte
	Partition int32
	Offset    int64
}

// Origin is where the dead letter was before it failed, as far as its headers
// or the name of its topic tell.
type Origin struct {
	Topic string
	// Partition and Offset are nil when unknown.
	Partition *int32
	Offset    *int64
	// Family names the header family that told, or "topic-name".
	Family string
}

// Failure is where a dead letter was before it failed, and why it failed, as far
// as its headers or the name of its topic tell.
type Failure struct {
	Origin       Origin
	ErrorMessage string
	// ErrorClass is the exception's type.
	ErrorClass string
	StackTrace string
}

// Arrival is a dead letter on its way into the store.
type Arrival struct {
	ID       ID
	DLQTopic string
	Source   Source
	Failure
	Record     Record
	Payload    json.RawMessage
	MaxRetries int
	// RetryCount and PreviousID are inherited when the message came back.
	RetryCount int
	PreviousID ID
}

// Status is the status a new arrival gets: PENDING, or DEAD when it came back
// with its retries used up.
func (a *Arrival) Status() Status {
	if a.RetryCount >= a.MaxRetries {
		return StatusDead
	}
	return StatusPending
}

// Storable is the arrival as a store keeps it. The record's key, value and headers
// are bytes and stay as they are.
func (a *Arrival) Storable() Arrival {
	s := *a
	s.DLQTopic = topicText(s.DLQTopic)
	s.Origin.Topic = topicText(s.Origin.Topic)
	s.Origin.Family = Text(s.Origin.Family)
	s.ErrorMessage = Text(s.ErrorMessage)
	s.ErrorClass = Text(s.ErrorClass)
	s.StackTrace = Text(s.StackTrace)
	s.Record.Timestamp = storableTime(s.Record.Timestamp)
	s.RetryCount = StorableCount(s.RetryCount)
	s.MaxRetries = StorableCount(s.MaxRetries)
	return s
}
