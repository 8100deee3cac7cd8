package dlq

import (
	"errors"
	"fmt"
	"time"
)

// ErrNotFound means that no message, job or group has the given id.
var ErrNotFound = errors.New("not found")

// MessageNotFound is ErrNotFound for a message.
func MessageNotFound(id ID) error { return fmt.Errorf("message %s: %w", id, ErrNotFound) }

// JobNotFound is ErrNotFound for a job.
func JobNotFound(id ID) error { return fmt.Errorf("job %s: %w", id, ErrNotFound) }

// ErrUnavailable means that the database, Kafka or Temporal does not answer. The call can be repeated later.
var ErrUnavailable = errors.New("unavailable")

// ErrUnauthenticated means that a token does not show who sent a request. The sender may see the text of the error.
var ErrUnauthenticated = errors.New("unauthenticated")

// ErrGone means that Kafka no longer has the record that a dead letter points to.
var ErrGone = errors.New("the record is no longer in Kafka")

// ErrFull means that the database has no space left, and ErrReadOnly that the database accepts no
// changes. Kafka keeps the records that cannot be ingested.
var (
	ErrFull     error = &databaseError{"the disk of the database is full"}
	ErrReadOnly error = &databaseError{"the database is read-only"}
)

// databaseError is why the database accepts no changes. Any client may see its text.
type databaseError struct{ reason string }

func (e *databaseError) Error() string { return e.reason }

func (e *databaseError) Unwrap() error { return ErrUnavailable }

// NoticeError is a result of a readiness check whose text operators may read. Unlike other errors, a notice names neither
// hosts nor users.
type NoticeError struct {
	Notice string
	// Unavailable is set when the dependency does not answer.
	Unavailable bool
}

// Error is the notice, for logs.
func (n *NoticeError) Error() string { return n.Notice }

// NotRetryableError refuses a retry because of the state of the message.
type NotRetryableError struct {
	ID         ID     `json:"id"`
	Status     Status `json:"status"`
	RetryCount int    `json:"retry_count"`
	MaxRetries int    `json:"max_retries"`
	// Reason replaces status and count in the text when these are not the cause.
	Reason string `json:"reason,omitempty"`
}

// Error is the documented text of the 409 answer.
func (e *NotRetryableError) Error() string {
	if e.Reason != "" {
		return "message is not retryable: " + e.Reason
	}
	return fmt.Sprintf("message is not retryable: status=%s, retry_count=%d/%d", e.Status, e.RetryCount, e.MaxRetries)
}

// OwnedError refuses a change because a workflow owns the message.
type OwnedError struct {
	ID    ID    `json:"id"`
	Owner Owner `json:"owner"`
}

// Error names the workflow, so that an operator can find it in Temporal.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("message %s is being retried by workflow %s; wait for it or cancel it", e.ID, e.Owner.WorkflowID)
}

// ErrFenced means that a newer attempt has the lane. The caller can no longer change the lane.
var ErrFenced = errors.New("a newer attempt has the lane")

// ErrUnfinished means that a lane has claimed messages of which its attempt does not know: the database was restored to an
// earlier moment, or a claim got no answer. The next attempt sends these messages first.
var ErrUnfinished = errors.New("the lane has claimed messages that this attempt does not know; the next attempt sends them")

// ErrPositionMoved means that a partition has another position in the database: the database was restored to an
// earlier moment, or another client has ingested the partition. Nothing was stored.
var ErrPositionMoved = errors.New("the database has another offset for the partition")

// ErrSpecUnreadable means that the stored specification of a bulk retry or of a bulk change
// cannot be parsed, because it was edited by hand. Another attempt does not help.
var ErrSpecUnreadable = errors.New("the specification of the job cannot be read")

// ErrBlocked means that another transaction did not release a lock in time. The call can be repeated.
var ErrBlocked = fmt.Errorf("%w: blocked by a lock", ErrUnavailable)

// ErrSlow means that the database did not finish a statement in time. The statement was undone. A statement on fewer rows
// may be fast enough.
var ErrSlow = fmt.Errorf("%w: the database took too long", ErrUnavailable)

// JobBusyError refuses a job because a different job is running on messages of the same topic.
// One job may name the dead-letter topic of these messages, and the other job their original topic.
type JobBusyError struct {
	Topic string
	// Running is the other job. It is zero for a caller who may not see that job.
	Running ID
}

// Error names the running job.
func (e *JobBusyError) Error() string {
	return fmt.Sprintf("job%s, with another kind, topic name, filter, scope, order or ramp, is under way on messages of topic %s; "+
		"wait for it or cancel it", named(e.Running), e.Topic)
}

func named(id ID) string {
	if id.IsZero() {
		return ""
	}
	return " " + id.String()
}

// Category is the kind of error of a delivery. It decides how the retry continues.
type Category string

const (
	// CategoryTransient ends by itself: network, timeout, no leader, 5xx.
	CategoryTransient Category = "transient"
	// CategoryRateLimit asks for a later attempt: throttled, 429.
	CategoryRateLimit Category = "rate_limit"
	// CategoryAuth refuses the client, not the message: SASL, ACL, 401, 403.
	CategoryAuth Category = "auth"
	// CategoryBadData is always refused: too large, invalid, 400, 489.
	CategoryBadData Category = "bad_data"
)

// Result is the result of a retry whose last error has this category.
func (c Category) Result() Result {
	if c == CategoryBadData {
		return ResultRejected
	}
	return ResultFailed
}

// DeliveryError is the refusal of a target, with its category.
type DeliveryError struct {
	Category Category
	// RetryAfter is how long the target asked to wait; zero if the target did not ask.
	RetryAfter time.Duration
	// TargetOnly is set when the topic refuses all messages, but other topics of the broker may accept messages: the topic
	// does not exist, or the client may not write to it.
	TargetOnly bool
	// MessageOnly is set when the record could not be read. Then the error says nothing about the target.
	MessageOnly bool
	// MaybeMessage is set when an HTTP endpoint has taken the request, and answered 500 or did not answer. Then the message
	// may be at fault. See Queue.Keys.
	MaybeMessage bool
	Err          error
}

// Error is the underlying error's text.
func (e *DeliveryError) Error() string { return e.Err.Error() }

// Unwrap gives access to the client library's own error.
func (e *DeliveryError) Unwrap() error { return e.Err }

// BlockedError means that a message was not sent, because an earlier message of its key was not
// delivered. The error does not unwrap to Cause, which says nothing about this message.
type BlockedError struct {
	// Cause is why the earlier message was not delivered.
	Cause error
}

// Error names the cause.
func (e *BlockedError) Error() string {
	return "not sent, since an earlier message with the same key was not delivered: " + e.Cause.Error()
}

// CategoryOf returns the category of a delivery error. An unclassified error is transient:
// an unnecessary retry does the least harm.
func CategoryOf(err error) Category {
	if delivery, ok := errors.AsType[*DeliveryError](err); ok {
		return delivery.Category
	}
	return CategoryTransient
}
