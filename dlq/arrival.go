package dlq

import (
	"cmp"
	"encoding/json"
	"time"

	"dlqmanager/dlq/fingerprint"
)

// Header is one Kafka record header. Headers keep their order and duplicates,
// and a nil Value (Kafka's null) differs from an empty Value.
type Header struct {
	Key   string
	Value []byte
}

// Record is the dead letter as it was consumed, byte for byte. A nil Key or Value is Kafka's null.
type Record struct {
	Key       []byte
	Value     []byte
	Headers   []Header
	Timestamp time.Time
}

// Source is the position in Kafka of the record that a dead letter was read from. A topic that was deleted and
// created again has another TopicID.
type Source struct {
	TopicID   [16]byte
	Partition int32
	Offset    int64
}

// IsZero reports whether the dead letter was not read from Kafka.
func (s Source) IsZero() bool { return s == Source{} }

// Origin is where the message was before it failed, from its headers or the name of its dead-letter topic.
type Origin struct {
	Topic string
	// Partition and Offset are nil when unknown.
	Partition *int32
	Offset    *int64
	// Timestamp is the time of the record in the original topic; zero when unknown.
	Timestamp time.Time
	// ConsumerGroup is the group whose consumer failed; empty when unknown.
	ConsumerGroup string
	// Family is the header family that the origin was read from, or "topic-name".
	Family string
}

// FamilyShareGroup is the header family of Kafka's share groups (KIP-1191).
const FamilyShareGroup = "kafka-share-group"

// IsPointer reports whether the dead letter has neither key nor value, and only names the record that failed. Brokers write
// pointers for share groups, unless they are configured to copy records.
func (d *Detail) IsPointer() bool {
	return d.Failure.Origin.Family == FamilyShareGroup && d.Record.IsEmpty()
}

// IsEmpty reports whether the record has neither key nor value. The publisher treats an empty record with the headers of a
// share group as a pointer, even if the record also has the headers of another family.
func (r *Record) IsEmpty() bool { return r.Key == nil && r.Value == nil }

// Failure is the origin and the error of a dead letter, as far as its headers or the name
// of its topic show. Empty fields are unknown.
type Failure struct {
	Origin       Origin
	ErrorMessage string
	// ErrorClass is the type of the exception, and CauseClass the type of its cause.
	ErrorClass string
	CauseClass string
	StackTrace string
	// Attempts is how often the consumer tried to process the message; 0 is unknown.
	Attempts int
	// TraceID is the trace of the W3C traceparent header, and CorrelationID the id that
	// the producer gave to related messages.
	TraceID       string
	CorrelationID string
	// Suspicion says why the message must not be sent back unseen: its headers attack consumers, its framework has damaged
	// it, or its original topic is not among the expected topics. Normally empty.
	Suspicion string
}

// FamilyHandedIn is the family of an origin that a service has named over HTTP.
const FamilyHandedIn = "handed-in"

// Over returns f, with the fields of other where f has none. The fields of the error all come from f or all from other. So
// do the fields of the origin, except for the consumer group.
func (f Failure) Over(other Failure) Failure {
	merged := other
	if f.ErrorMessage+f.ErrorClass+f.StackTrace != "" {
		merged.ErrorMessage, merged.ErrorClass = cmp.Or(f.ErrorMessage, UnknownError), f.ErrorClass
		merged.CauseClass, merged.StackTrace = f.CauseClass, f.StackTrace
	}
	if f.Origin.Topic != "" {
		merged.Origin = f.Origin
	}
	merged.Origin.ConsumerGroup = cmp.Or(f.Origin.ConsumerGroup, other.Origin.ConsumerGroup)
	merged.Attempts = cmp.Or(f.Attempts, other.Attempts)
	merged.TraceID = cmp.Or(f.TraceID, other.TraceID)
	merged.CorrelationID = cmp.Or(f.CorrelationID, other.CorrelationID)
	return merged
}

// OwnLines are the lines of the stack trace that show the application's own code, counted from 0; nil if no frame has a known form.
func (f Failure) OwnLines() []int { return fingerprint.OwnLines(f.StackTrace) }

// Arrival is a dead letter that is about to be stored.
type Arrival struct {
	ID       ID
	DLQTopic string
	Source   Source
	Failure
	Record     Record
	Payload    json.RawMessage
	MaxRetries int
	// RetryCount and PreviousID come from the previous message when the message came back; see
	// CameBack. Otherwise a store keeps PreviousID as a link, and stores 0 for RetryCount.
	RetryCount int
	PreviousID ID
	// Fingerprint names the cause. Messages without a fingerprint are in no group.
	Fingerprint fingerprint.Fingerprint
	// Schema is the schema of a value in the wire format of a Schema Registry, and DecodeError says
	// why Payload does not have that value. Both are empty for other values.
	Schema      Schema
	DecodeError string
}

// Status is PENDING, or DEAD when the message came back and its retries are used up.
func (a *Arrival) Status() Status {
	if a.RetryCount >= a.MaxRetries {
		return StatusDead
	}
	return StatusPending
}

// CameBack decides whether the arrival is the message PreviousID, which has failed again. The writer of a record can claim
// any PreviousID. So the arrival must be in previousTopic, the dead-letter topic of that message, or must come from the
// target of that message. The writer can claim any origin too, so the origin of a suspicious arrival does not count.
func (a *Arrival) CameBack(previousTopic, target string) bool {
	return a.DLQTopic == previousTopic || a.Suspicion == "" && a.Origin.Topic == target
}

// Resolution is exhausted when the arrival is DEAD, and otherwise empty.
func (a *Arrival) Resolution() Resolution { return ResolutionOf(ResultFailed, a.Status()) }

// Storable is the arrival as a store keeps it. The bytes of the record do not change.
func (a *Arrival) Storable() Arrival {
	s := *a
	for _, text := range []*string{&s.Origin.Family, &s.Origin.ConsumerGroup, &s.StackTrace, &s.TraceID, &s.CorrelationID, &s.Suspicion} {
		*text = StorableText(*text)
	}
	for _, text := range []*string{&s.ErrorMessage, &s.ErrorClass, &s.CauseClass, &s.Schema.Subject, &s.Schema.MessageType, &s.DecodeError} {
		*text = shortText(*text)
	}
	for _, count := range []*int{&s.Attempts, &s.RetryCount, &s.MaxRetries} {
		*count = StorableCount(*count)
	}
	s.DLQTopic, s.Origin.Topic = storableTopic(s.DLQTopic), storableTopic(s.Origin.Topic)
	s.Origin.Timestamp, s.Record.Timestamp = storableTime(s.Origin.Timestamp), storableTime(s.Record.Timestamp)
	s.Fingerprint = storableFingerprint(s.Fingerprint)
	return s
}
