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

// Lost says why the message is not the owner's to retry: a *OwnedError where another has
// it, else a *NotRetryableError.
func (m *Message) Lost(owner Owner) error {
	if m.Status == StatusRetrying && m.Owner != owner {
		return &OwnedError{ID: m.ID, Owner: m.Owner}
	}
	return &NotRetryableError{ID: m.ID, Status: m.Status, RetryCount: m.RetryCount, MaxRetries: m.MaxRetries}
}

// Detail is everything known of one message.
type Detail struct {
	Message
	Record  Record
	Source  Source
	Failure Failure
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

// Owner names the workflow that owns a RETRYING message. Whoever presents the same
// token again is the same owner, however often it crashed in between.
type Owner struct {
	WorkflowID string `json:"workflow_id"`
	// Token is the id of a bulk retry, or the first run id of the workflow of a
	// single retry.
	Token string `json:"token"`
}

// IsZero reports whether there is no owner.
func (o Owner) IsZero() bool { return o == Owner{} }

// Claim is a message that its owner may send now.
type Claim struct {
	OriginalTopic string
	RetryCount    int // with this claim
	MaxRetries    int
	// Size is that of what has to be sent, in bytes.
	Size int64
}

// Envelope is what a publisher needs to send a claimed message back.
type Envelope struct {
	ID            ID
	Seq           int64
	OriginalTopic string
	RetryCount    int
	Record        Record
}

// Outcome is how the retry of one claimed message ended.
type Outcome struct {
	ID       ID       `json:"id"`
	Result   Result   `json:"result"`
	Category Category `json:"category,omitempty"` // empty when delivered
	Error    string   `json:"error,omitempty"`    // empty when delivered
}

// PageOutcome is how the claim of one message of a lane's page ended.
type PageOutcome struct {
	Outcome
	// RetryCount is that of the claim, and tells it from a later one.
	RetryCount int `json:"retry_count"`
	// Target has taken the message, or judged it, and so is open. Zero when unknown.
	Target Target `json:"target,omitzero"`
	// Wait says what a message waits for whose result is ResultWaiting.
	Wait Wait `json:"-"`
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
