package dlq

// Resolution says why a message ended, and is empty before.
type Resolution string

const (
	// ResolutionDelivered was acknowledged by its target. RESOLVED.
	ResolutionDelivered Resolution = "delivered"
	// ResolutionReplaced was sent as an edited copy, which is a message of its own. RESOLVED.
	ResolutionReplaced Resolution = "replaced"
	// ResolutionExhausted has used all its retries. DEAD.
	ResolutionExhausted Resolution = "exhausted"
	// ResolutionRefused can never be delivered: the target refused the message as bad data. DEAD.
	ResolutionRefused Resolution = "refused"
	// ResolutionGivenUp was marked dead by an operator. DEAD.
	ResolutionGivenUp Resolution = "given_up"
)

// ResolutionOf is why a message has ended, from the result of its retry and the status that the retry
// left; empty when the message has not ended.
func ResolutionOf(r Result, left Status) Resolution {
	switch {
	case left == StatusResolved:
		return ResolutionDelivered
	case left == StatusDead && r == ResultRejected:
		return ResolutionRefused
	case left == StatusDead:
		return ResolutionExhausted
	default:
		return ""
	}
}

// Ended is why the message ended. It is empty before the end. Other programs record no reason: the reason then follows
// from the status and the retry count, and is empty for a DEAD message that has retries left.
func (m *Message) Ended() Resolution {
	switch {
	case !m.Status.IsFinal():
		return ""
	case m.Resolution != "":
		return m.Resolution
	case m.Status == StatusResolved:
		return ResolutionDelivered
	case m.RetryCount >= m.MaxRetries:
		return ResolutionExhausted
	default:
		return ""
	}
}
