package dlq

import "time"

// SingleRetry is the retry of one message that a request has asked for, with the facts that tell its
// state. Retries that were started in Temporal have no request.
type SingleRetry struct {
	// Operation is the row of the audit for the request, which was accepted.
	Operation
	// Run is the run that retries the message; empty while no worker has claimed the message for the
	// request. Joined means that another request had started the run.
	Run    string
	Joined bool
	// Claimed means that the run has claimed the message, now or before.
	Claimed bool
	// Refusal is the error of the request after it was accepted, and IsRefused means that the
	// workflow has refused the retry.
	Refusal   string
	IsRefused bool
	// Message has the status, the resolution, the retries, the owner and the time of the message now. Its
	// status is empty if the message is gone.
	Message Message
	// Attempt is the attempt of the run, without Owner and the target. Its result is empty if the run has no attempt.
	Attempt Attempt
}

// SingleRetryState is how far a single retry is.
type SingleRetryState string

// The states of single retries.
const (
	// SingleRetryUnclaimed has no claim: it waits for a worker, or did not start, or was refused
	// when nobody waited for its end.
	SingleRetryUnclaimed SingleRetryState = "UNCLAIMED"
	// SingleRetryRunning has claimed the message.
	SingleRetryRunning SingleRetryState = "RUNNING"
	// SingleRetrySucceeded has delivered the message.
	SingleRetrySucceeded SingleRetryState = "SUCCEEDED"
	// SingleRetryFailed has not delivered the message: the attempt failed, or the workflow refused the message.
	SingleRetryFailed SingleRetryState = "FAILED"
	// SingleRetryCancelled had claimed the message and ended without an attempt: somebody cancelled it, or marked
	// the message dead.
	SingleRetryCancelled SingleRetryState = "CANCELLED"
	// SingleRetryGone is unknown, since its message was deleted or purged.
	SingleRetryGone SingleRetryState = "GONE"
)

// SingleRetryEnd is the state of a single retry. EndedAt is zero, and Error empty, while unknown.
type SingleRetryEnd struct {
	State   SingleRetryState
	EndedAt time.Time
	Error   string
}

// End tells the state from the present rows of the message and its attempts. The outcome of a retry has no row of
// its own: a failure is an attempt, a delivery is in the message, and a cancelled retry leaves neither.
func (r *SingleRetry) End() SingleRetryEnd {
	m := &r.Message
	isOwner := r.Run != "" && m.Owner.Token == r.Run
	switch {
	case isOwner && m.Status == StatusRetrying:
		return SingleRetryEnd{State: SingleRetryRunning}
	case r.Attempt.Result == ResultDelivered:
		return SingleRetryEnd{State: SingleRetrySucceeded, EndedAt: r.Attempt.EndedAt}
	case r.Attempt.Result != "":
		return SingleRetryEnd{State: SingleRetryFailed, EndedAt: r.Attempt.EndedAt, Error: r.Attempt.Error}
	case isOwner && m.Ended() == ResolutionDelivered:
		return SingleRetryEnd{State: SingleRetrySucceeded, EndedAt: m.UpdatedAt}
	case r.IsRefused && !r.Claimed:
		return SingleRetryEnd{State: SingleRetryFailed, Error: r.Refusal}
	case m.Status == "":
		return SingleRetryEnd{State: SingleRetryGone}
	case r.Claimed:
		return SingleRetryEnd{State: SingleRetryCancelled}
	default:
		return SingleRetryEnd{State: SingleRetryUnclaimed, Error: r.Refusal}
	}
}

// TargetTopic is the target that the request asked for; empty for the original topic.
func (r *SingleRetry) TargetTopic() string { return r.detail().TargetTopic }
