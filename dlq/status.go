package dlq

import "fmt"

// Status is where a dead letter stands. docs/states.md shows the transitions.
type Status string

const (
	// StatusPending waits for an operator. Every message starts here, and
	// comes back here when a retry failed and another is allowed.
	StatusPending Status = "PENDING"
	// StatusRetrying is owned by a live workflow that is sending it back.
	StatusRetrying Status = "RETRYING"
	// StatusResolved was acknowledged by its target. Final.
	StatusResolved Status = "RESOLVED"
	// StatusDead will not be retried: its retries are used up, it can never be
	// delivered, or an operator said so. Final.
	StatusDead Status = "DEAD"
)

// Statuses lists every status in the order of the life of a message.
var Statuses = []Status{StatusPending, StatusRetrying, StatusResolved, StatusDead}

// ParseStatus reads a status by its exact name.
func ParseStatus(s string) (Status, error) {
	for _, status := range Statuses {
		if string(status) == s {
			return status, nil
		}
	}
	return "", fmt.Errorf("unknown status %q: use PENDING, RETRYING, RESOLVED or DEAD", s)
}

// IsFinal reports whether a message in this status never changes again.
func (s Status) IsFinal() bool { return s == StatusResolved || s == StatusDead }

// Result says how one retry of a message ended.
type Result string

const (
	// ResultDelivered was acknowledged by the target.
	ResultDelivered Result = "delivered"
	// ResultFailed was refused, or gave up; the message itself may be sound.
	ResultFailed Result = "failed"
	// ResultRejected can never work, however often it is tried.
	ResultRejected Result = "rejected"
	// ResultReturned was claimed but never sent, so the claim's count is taken
	// back and the message is as it was.
	ResultReturned Result = "returned"
	// ResultSkipped was claimed by a bulk retry and not sent, because an
	// earlier message of its key failed. Like ResultReturned, but this job
	// does not take it again.
	ResultSkipped Result = "skipped"
	// ResultWaiting was claimed by a bulk retry and not delivered, for a reason
	// that is not its own. Like ResultReturned; the job comes back for it.
	ResultWaiting Result = "waiting"
)

// After returns the status and the retry count of a claimed message once its
// retry has ended with this result. retryCount already includes the retry: the
// claim counted it.
func (r Result) After(retryCount, maxRetries int) (Status, int) {
	switch r {
	case ResultDelivered:
		return StatusResolved, retryCount
	case ResultRejected:
		return StatusDead, retryCount
	case ResultReturned, ResultSkipped, ResultWaiting:
		return StatusPending, max(retryCount-1, 0)
	default:
		if retryCount < maxRetries {
			return StatusPending, retryCount
		}
		return StatusDead, retryCount
	}
}

// IsUndone reports whether the claim is taken back, as if it had never been.
func (r Result) IsUndone() bool {
	return r == ResultReturned || r == ResultSkipped || r == ResultWaiting
}

// IsAttempt reports whether the retry is kept as an attempt: it was made, and it
// did not deliver.
func (r Result) IsAttempt() bool { return r != ResultDelivered && !r.IsUndone() }
