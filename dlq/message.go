package dlq

import (
	"encoding/json"
	"hash/fnv"
	"time"
)

// DefaultMaxRetries is how many operator retries a message gets unless the
// configuration says otherwise.
const DefaultMaxRetries = 3

// UnknownError stands in for an error that the dead letter does not name.
const UnknownError = "unknown error"

// Message is the state of one dead letter: everything a list shows and a status
// change touches. Its bytes are in Record.
type Message struct {
	ID ID
	// Seq is the order of arrival, given by the store. It has gaps.
	Seq           int64
	OriginalTopic string
	DLQTopic      string
	ErrorMessage  string
	// ErrorClass is the exception's type, when the dead letter names one.
	ErrorClass string
	RetryCount int
	MaxRetries int
	// Payload is the searchable view of the value: its JSON, or nil when the
	// value is not JSON or is JSON that PostgreSQL's JSONB cannot hold.
	Payload json.RawMessage
	Status  Status
	// CreatedAt is when the message was stored, UTC.
	CreatedAt   time.Time
	UpdatedAt   time.Time
	LastRetryAt *time.Time
	// Owner is the workflow that retries the message (RETRYING) or that last
	// did; zero when it was never retried.
	Owner Owner
	// PreviousID is the message that this one was before it was republished
	// and failed again; zero when it did not come back.
	PreviousID ID
}

// IsRetryable reports whether an operator may retry the message now. That it
// has a place to go is a question for Topics.CheckOrigin.
func (m *Message) IsRetryable() bool {
	return (m.Status == StatusPending || m.Status == StatusRetrying) && m.RetryCount < m.MaxRetries
}

// CheckRetryable returns a *NotRetryableError when IsRetryable is false.
func (m *Message) CheckRetryable() error {
	if m.IsRetryable() {
		return nil
	}
	return &NotRetryableError{ID: m.ID, Status: m.Status, RetryCount: m.RetryCount, MaxRetries: m.MaxRetries}
}

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

// Detail is everything known of one message.
type Detail struct {
	Message
	Record     Record
	Source     Source
	Origin     Origin
	StackTrace string
	// Attempts are the retries that did not deliver, oldest first.
	Attempts []Attempt
}

// Attempt is one retry that ended without delivery.
type Attempt struct {
	// Number is the retry count that this retry was claimed with, from 1.
	Number    int
	Owner     Owner
	StartedAt time.Time
	EndedAt   time.Time
	Result    Result
	Category  Category
	Error     string
}

// Owner names the workflow that owns a RETRYING message. RunID is the first
// run's id, so it survives continue-as-new and is the claim's token: whoever
// presents it again is the same owner, however often it crashed in between.
type Owner struct {
	WorkflowID string
	RunID      string
}

// IsZero reports whether there is no owner.
func (o Owner) IsZero() bool { return o == Owner{} }

// Envelope is what a publisher needs to send a claimed message back.
type Envelope struct {
	ID            ID
	Seq           int64
	OriginalTopic string
	RetryCount    int
	Record        Record
	// ClaimedAt is when the claim counted this retry.
	ClaimedAt time.Time
}

// Outcome is how the retry of one claimed message ended.
type Outcome struct {
	ID       ID
	Result   Result
	Category Category // empty when delivered
	Error    string   // empty when delivered
}

// KeyHash maps a record key to a non-negative number that decides the lane of
// a bulk retry. Messages with one key share it, so they stay in order; messages
// without a key have no order to keep and are spread by their id.
func KeyHash(key []byte, id ID) int32 {
	h := fnv.New32a()
	if key == nil {
		_, _ = h.Write(id[:])
	} else {
		_, _ = h.Write(key)
	}
	return int32(h.Sum32() & 0x7fffffff)
}
