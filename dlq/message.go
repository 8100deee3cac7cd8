package dlq

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"
)

// DefaultMaxRetries is how many operator retries a message gets by default.
const DefaultMaxRetries = 3

// UnknownError is the error message of a dead letter whose headers name no error.
const UnknownError = "unknown error"

// Message is the state of a dead letter. Lists show this state, and a change of the status writes it. The bytes are in
// Record.
type Message struct {
	ID ID
	// Seq is the message's number in the order of arrival. The store assigns the numbers, with gaps.
	Seq           int64
	OriginalTopic string
	DLQTopic      string
	ErrorMessage  string
	// ErrorClass is the exception's type, when the dead letter names the type.
	ErrorClass string
	RetryCount int
	MaxRetries int
	// Payload is the searchable view of the value: its JSON, or nil when the
	// value is not JSON or is JSON that PostgreSQL's JSONB cannot hold.
	Payload json.RawMessage
	// OmittedPayload is the size of a payload that a list leaves out, in bytes. If the payload was not read, OmittedPayload
	// is the size of the record.
	OmittedPayload int
	Status         Status
	// CreatedAt is when the message was stored, UTC.
	CreatedAt   time.Time
	UpdatedAt   time.Time
	LastRetryAt *time.Time
	// Owner is the workflow that retries the message (RETRYING) or that retried it last. Owner is zero when
	// the message was never retried, and after an operator has revived the message or has marked it dead while it was
	// PENDING.
	Owner Owner
	// PreviousID is the message that this message was before it came back, was edited or was restored; zero if none of
	// these happened.
	PreviousID ID
	// Resolution is the recorded reason why the message ended. The method Ended returns the reason to show.
	Resolution Resolution
	// TargetPartition and TargetOffset are the place of a delivered message in the
	// topic that it was sent to; nil when unknown.
	TargetPartition *int32
	TargetOffset    *int64
	// Suspicious is set when the headers are known to attack consumers. Bulk retries skip such a message, unless
	// JobSpec.IncludeSuspicious is set.
	Suspicious bool
	// GroupID is the group of the messages with the same cause; zero for messages that other programs have stored.
	GroupID ID
	// Masked names the parts that are hidden from a reader; nil if none is hidden. Stores leave Masked empty. See Mask.
	Masked []string
}

// IsRetryable reports whether an operator may retry the message now. Topics.CheckOrigin
// reports whether the message has a topic to go to.
func (m *Message) IsRetryable() bool {
	return (m.Status == StatusPending || m.Status == StatusRetrying) && m.RetryCount < m.MaxRetries
}

// CheckRetryable returns a *NotRetryableError when IsRetryable is false.
func (m *Message) CheckRetryable() error {
	if m.IsRetryable() {
		return nil
	}
	return m.refusal("")
}

// refusal is the error that refuses a change of the message: for the reason or, if reason is empty, because of status and
// retry count.
func (m *Message) refusal(reason string) *NotRetryableError {
	return &NotRetryableError{ID: m.ID, Status: m.Status, RetryCount: m.RetryCount, MaxRetries: m.MaxRetries, Reason: reason}
}

// ClaimError returns why the owner has no claim on the message: a *OwnedError when another
// workflow owns the message, else a *NotRetryableError.
func (m *Message) ClaimError(owner Owner) error {
	if m.Status == StatusRetrying && m.Owner != owner {
		return &OwnedError{ID: m.ID, Owner: m.Owner}
	}
	return m.refusal("")
}

// AwaitsResult reports whether the result of the owner's retry must still be recorded. If an operator has marked the
// message dead meanwhile, only a delivery is recorded; with any other result the message stays DEAD.
func (m *Message) AwaitsResult(owner Owner, result Result) bool {
	markedDead := m.Status == StatusDead && m.Resolution == ResolutionGivenUp
	return m.Owner == owner && (m.Status == StatusRetrying || markedDead && result == ResultDelivered)
}

// NotDead is the *NotRetryableError that refuses to revive a message because of its status.
func (m *Message) NotDead() error {
	reason := fmt.Sprintf("only a DEAD message can be revived, and its status is %s", m.Status)
	if m.WasMarkedWhileSent() {
		reason = fmt.Sprintf("it was marked dead while a retry was sending it; revive it %s after it was marked", ReviveAfter)
	}
	return m.refusal(reason)
}

// ReviveAfter is how long a message that was marked dead during a retry cannot be revived. That retry may still send the
// message, and a retry after the revival would send it again. A retry begins its publish at most 25 seconds after it last
// read its claim. The publish takes at most 18 seconds, and the transaction that marks the message at most 8 seconds.
const ReviveAfter = time.Minute

// WasMarkedWhileSent reports whether an operator marked the message dead while a retry had claimed it.
func (m *Message) WasMarkedWhileSent() bool {
	return m.Status == StatusDead && m.Resolution == ResolutionGivenUp && m.Owner.Token != ""
}

// Detail is all that is stored of a message.
type Detail struct {
	Message
	// PreviousTopic is the dead-letter topic of PreviousID; empty if that message was deleted.
	PreviousTopic string
	Record        Record
	Source        Source
	Failure       Failure
	// Attempts are the retries that ended without delivery, or that delivered the message after they
	// had lost their claim, oldest first.
	Attempts []Attempt
	// Schema and DecodeError come from the Arrival.
	Schema      Schema
	DecodeError string
	Edits       Edits
	// Unreadable says why the headers cannot be read. Then the record has no headers.
	Unreadable error
}

// Edits link a message to its edited copies.
type Edits struct {
	// If this message is an edited copy, From is the message that was edited. If an edited copy was sent in place of this
	// message, By is that copy. Most messages have neither.
	From, By ID
}

// Attempt is a retry that has ended.
type Attempt struct {
	// Number is the retry count after the claim of this retry, from 1.
	Number    int
	Owner     Owner
	StartedAt time.Time
	EndedAt   time.Time
	Result    Result
	Category  Category
	Error     string
	// TargetPartition and TargetOffset are the place of the message in the target, if the retry delivered the message after
	// it had lost its claim. Otherwise, and when unknown, they are nil.
	TargetPartition *int32
	TargetOffset    *int64
}

// ListSize is the largest size that the attempt can have in JSON, in bytes.
func (a *Attempt) ListSize() int { return 6*len(a.Error) + 1<<10 }

// DetailQuery names messages whose details are read.
type DetailQuery struct {
	IDs []ID
	// Archived reads archived messages instead of live messages.
	Archived bool
	// AllPayloads also reads the payloads that are equal to the JSON of the value. The value is read anyway.
	AllPayloads bool
}

// Weight is how much is read for the details of a message, in bytes.
type Weight struct {
	ID       ID
	DLQTopic string
	// Binary is the size of key and value. Long is the size of headers, error message and stack trace. Short is the size of
	// all other texts and of the attempts.
	Binary, Payload, Long, Short int64
}

// Size is the sum of all parts.
func (w *Weight) Size() int64 { return w.Binary + w.Payload + w.Long + w.Short }

// Owner names the workflow that owns a RETRYING message. A caller with the same workflow id
// and token is the same owner, also after a crash.
type Owner struct {
	WorkflowID string `json:"workflow_id"`
	// Token is the id of a bulk retry, or the first run id of the workflow of a
	// single retry.
	Token string `json:"token"`
}

// IsZero reports whether there is no owner.
func (o Owner) IsZero() bool { return o == Owner{} }

// Claim is a message that its owner may send now. Workflow histories contain it as JSON.
type Claim struct {
	OriginalTopic string `json:"original_topic"`
	RetryCount    int    `json:"retry_count"` // including this claim
	MaxRetries    int    `json:"max_retries"`
	// Size is the size of the record to be sent, in bytes. Histories do not contain it.
	Size int64 `json:"-"`
}

// Envelope is the part of a claimed message that the publisher needs.
type Envelope struct {
	ID            ID
	Seq           int64
	OriginalTopic string
	// TargetTopic is where the message is sent; empty for the original topic. See Targets.
	TargetTopic string
	RetryCount  int
	Record      Record
	// Unreadable says why the record can neither be read nor sent.
	Unreadable error
	// TraceID is the trace of the message; empty without a trace. The messages of a page never have a TraceID.
	TraceID string
	// Token is the owner's token. It tells the retries of a message apart, because RetryCount starts again after a revival.
	Token string
}

// Target is where the message is sent: a topic, or the EndpointTarget of an endpoint.
func (e *Envelope) Target() string { return cmp.Or(e.TargetTopic, e.OriginalTopic) }

// Outcome is how the retry of a claimed message ended.
type Outcome struct {
	ID       ID       `json:"id"`
	Result   Result   `json:"result"`
	Category Category `json:"category,omitempty"` // empty when delivered
	Error    string   `json:"error,omitempty"`    // empty when delivered
	// Acknowledgement is where the target has written the message; nil when the message was
	// not delivered or its place is unknown.
	Acknowledgement *Acknowledgement `json:"acknowledgement,omitempty"`
}

// PageOutcome is how the claim of a message of a lane's page ended. The heartbeats of lanes have the outcomes of delivered
// messages as JSON, without Target and Wait.
type PageOutcome struct {
	Outcome
	// RetryCount is the retry count of the claim. It tells this claim from a later claim.
	RetryCount int `json:"retry_count"`
	// Target is open: it has acknowledged or rejected the message, or may be tried again. Zero when unknown.
	Target Target `json:"-"`
	// Wait is the queue of a message whose result is ResultWaiting.
	Wait Wait `json:"-"`
}

// KeyHash maps a record key to a non-negative number that decides the lane of a bulk retry, so messages with
// the same key stay in order. Messages without a key are spread over the lanes by their id.
func KeyHash(key []byte, id ID) int32 {
	h := fnv.New32a()
	if key == nil {
		_, _ = h.Write(id[:])
	} else {
		_, _ = h.Write(key)
	}
	return int32(h.Sum32() & 0x7fffffff)
}
