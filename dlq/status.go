package dlq

import (
	"fmt"
	"slices"
)

// Status is the state of a dead letter. docs/states.md shows the transitions.
type Status string

const (
	// StatusPending waits for an operator. A new message is PENDING. So is a message whose retry failed, if another retry
	// is allowed.
	StatusPending Status = "PENDING"
	// StatusRetrying is owned by a workflow that sends the message back.
	StatusRetrying Status = "RETRYING"
	// StatusResolved was acknowledged by its target, or an edited copy was sent in its place. Final.
	StatusResolved Status = "RESOLVED"
	// StatusDead will not be retried: its retries are used up, the target can never accept the message,
	// or an operator marked the message dead. An operator may revive a DEAD message.
	StatusDead Status = "DEAD"
)

// Statuses lists every status in the order in which a message passes through them.
var Statuses = []Status{StatusPending, StatusRetrying, StatusResolved, StatusDead}

// ParseStatus parses the exact name of a status.
func ParseStatus(s string) (Status, error) {
	if status := Status(s); slices.Contains(Statuses, status) {
		return status, nil
	}
	return "", fmt.Errorf("unknown status %q: use PENDING, RETRYING, RESOLVED or DEAD", s)
}

// IsFinal reports whether a message in this status has ended. A DEAD message can still be revived.
func (s Status) IsFinal() bool { return s == StatusResolved || s == StatusDead }

// Result is how a retry of a message ended.
type Result string

const (
	// ResultDelivered was acknowledged by the target.
	ResultDelivered Result = "delivered"
	// ResultFailed was refused, or given up after the last attempt. Another retry may succeed.
	ResultFailed Result = "failed"
	// ResultRejected can never be delivered, however often it is retried.
	ResultRejected Result = "rejected"
	// ResultReleased was claimed and never sent. The message is PENDING again, and the
	// retry is not counted. Workflow histories call it "returned".
	ResultReleased Result = "returned"
	// ResultSkipped was claimed by a bulk retry and not sent, because an earlier message of
	// its key failed. The claim is not counted, and this job claims the message no more.
	ResultSkipped Result = "skipped"
	// ResultWaiting was claimed by a bulk retry and requeued, for a reason that is not the message's own, such
	// as a closed target. The claim is not counted, and the job claims the message again later.
	ResultWaiting Result = "waiting"
)

// After returns the status and the retry count of a claimed message after its retry ended
// with this result. retryCount includes this retry, which the claim counted.
func (r Result) After(retryCount, maxRetries int) (Status, int) {
	switch r {
	case ResultDelivered:
		return StatusResolved, retryCount
	case ResultRejected:
		return StatusDead, retryCount
	case ResultReleased, ResultSkipped, ResultWaiting:
		return StatusPending, max(retryCount-1, 0)
	default:
		if retryCount < maxRetries {
			return StatusPending, retryCount
		}
		return StatusDead, retryCount
	}
}

// IsUncounted reports whether the claim is undone: the message is PENDING, and the retry is not counted.
func (r Result) IsUncounted() bool {
	return r == ResultReleased || r == ResultSkipped || r == ResultWaiting
}

// IsAttempt reports whether the retry is stored as an attempt: it was counted and did not deliver.
func (r Result) IsAttempt() bool { return r != ResultDelivered && !r.IsUncounted() }
