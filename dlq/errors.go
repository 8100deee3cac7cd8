package dlq

import (
	"errors"
	"fmt"
	"time"
)

// ErrNotFound means that no message or bulk retry has the given id.
var ErrNotFound = errors.New("not found")

// MessageNotFound is ErrNotFound for a message.
func MessageNotFound(id ID) error { return fmt.Errorf("message %s: %w", id, ErrNotFound) }

// BulkNotFound is ErrNotFound for a bulk retry.
func BulkNotFound(id ID) error { return fmt.Errorf("bulk retry %s: %w", id, ErrNotFound) }

// ErrUnavailable means that the database, Kafka or Temporal is away. The
// same call may be made again later; nothing is lost.
var ErrUnavailable = errors.New("unavailable")

// ErrFull means that the database has no room left, and ErrReadOnly that it takes no
// changes. Kafka keeps what cannot be taken in.
var (
	ErrFull     error = &databaseError{"the disk of the database is full"}
	ErrReadOnly error = &databaseError{"the database is read-only"}
)

// databaseError is why the database takes nothing, in words for everybody.
type databaseError struct{ reason string }

func (e *databaseError) Error() string { return e.reason }

func (e *databaseError) Unwrap() error { return ErrUnavailable }

// NoticeError is what a readiness check has to say to operators: it names neither hosts
// nor users, as other errors do.
type NoticeError struct {
	Notice string
	// Away says that the dependency is away; else it works all the same.
	Away bool
}

// Error is the notice, for logs.
func (n *NoticeError) Error() string { return n.Notice }

// NotRetryableError refuses a retry because of the message's own state.
type NotRetryableError struct {
	ID         ID     `json:"id"`
	Status     Status `json:"status"`
	RetryCount int    `json:"retry_count"`
	MaxRetries int    `json:"max_retries"`
	// Reason replaces the documented status and count where these are not why.
	Reason string `json:"reason,omitempty"`
}

// Error is the documented text of the 409 answer.
func (e *NotRetryableError) Error() string {
	if e.Reason != "" {
		return "message is not retryable: " + e.Reason
	}
	return fmt.Sprintf("message is not retryable: status=%s, retry_count=%d/%d", e.Status, e.RetryCount, e.MaxRetries)
}

// OwnedError refuses a change because a workflow owns the message right now.
type OwnedError struct {
	ID    ID    `json:"id"`
	Owner Owner `json:"owner"`
}

// Error names the owner, so that an operator can find it in Temporal.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("message %s is being retried by workflow %s; wait for it or cancel it", e.ID, e.Owner.WorkflowID)
}

// ErrFenced means that a newer attempt has the lane: the caller can change nothing
// in it any more.
var ErrFenced = errors.New("a newer attempt has the lane")

// ErrMoved means that a partition's position is not where the caller believes it to
// be: the database was restored to an earlier moment, or somebody else has the
// partition. Nothing was stored.
var ErrMoved = errors.New("the database has another offset for the partition")

// ErrUnreadable means that the specification of a bulk retry cannot be read: somebody
// has written it by hand. Trying again does not help.
var ErrUnreadable = errors.New("the specification of the bulk retry cannot be read")

// ErrBlocked means that a lock of somebody else was not released in time. The same
// call may be made again.
var ErrBlocked = fmt.Errorf("%w: blocked by a lock", ErrUnavailable)

// BulkBusyError refuses a bulk retry because another one, which asks for something
// else, is under way on messages of the same topic, perhaps under its other name.
type BulkBusyError struct {
	Topic   string
	Running ID
}

// Error names the job that is in the way.
func (e *BulkBusyError) Error() string {
	return fmt.Sprintf("bulk retry %s, with another topic name, filter, order or ramp, is under way on messages of topic %s; "+
		"wait for it or cancel it", e.Running, e.Topic)
}

// Category is why a delivery failed, which decides what is done about it.
type Category string

const (
	// CategoryTransient passes by itself: network, timeout, no leader, 5xx.
	CategoryTransient Category = "transient"
	// CategoryRateLimit asks us to come back later: throttled, 429.
	CategoryRateLimit Category = "rate_limit"
	// CategoryAuth is a refusal of us, not of the message: SASL, ACL, 401, 403.
	CategoryAuth Category = "auth"
	// CategoryBadData will be refused for ever: too large, invalid, 400, 489.
	CategoryBadData Category = "bad_data"
)

// Result is how a retry ends that gave up with an error of this category.
func (c Category) Result() Result {
	if c == CategoryBadData {
		return ResultRejected
	}
	return ResultFailed
}

// DeliveryError is a target's refusal, with its category.
type DeliveryError struct {
	Category Category
	// RetryAfter is how long the target asked us to wait; zero when it did not.
	RetryAfter time.Duration
	// TargetOnly says that the topic as a whole is refused, and that others of the same
	// broker may well work: it does not exist, or we may not write to it.
	TargetOnly bool
	Err        error
}

// Error is the underlying error's text.
func (e *DeliveryError) Error() string { return e.Err.Error() }

// Unwrap gives access to the client library's own error.
func (e *DeliveryError) Unwrap() error { return e.Err }

// BlockedError means that a message was not sent, because an earlier one of its key
// was not delivered. It does not unwrap: nobody has judged the message itself.
type BlockedError struct {
	// Behind is why the earlier one was not delivered.
	Behind error
}

// Error says what the message waits for.
func (e *BlockedError) Error() string {
	return "not sent, since an earlier message with the same key was not delivered: " + e.Behind.Error()
}

// CategoryOf returns the category of a delivery error. An error that nobody
// classified is transient: trying again is the harmless mistake.
func CategoryOf(err error) Category {
	var delivery *DeliveryError
	if errors.As(err, &delivery) {
		return delivery.Category
	}
	return CategoryTransient
}
