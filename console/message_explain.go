package console

import (
	"slices"

	"dlqmanager/client"
)

// failure tells why the consumer or the newest retry of a message has failed.
type failure struct {
	*client.MessageDetail

	// Last is the newest failed retry; nil if no retry has failed.
	Last  *client.MessageDetail_Attempts
	Stack stack
}

func failureOf(m *client.MessageDetail) failure {
	f := failure{MessageDetail: m, Stack: stackOf(m)}
	for i, attempt := range slices.Backward(m.Attempts) {
		if attempt.Error != nil {
			f.Last = &m.Attempts[i]
			break
		}
	}
	return f
}

// verified says in words whether the consumer got past a message. The text is empty if the message was not
// delivered.
func (l locale) verified(verified *client.Verified, reason *client.VerifiedReason) string {
	switch {
	case verified == nil:
		return ""
	case *verified == client.VerifiedYes:
		return l.text("Passed by the consumer: its group has committed an offset beyond the message, and it has not come back.")
	case *verified == client.VerifiedNo && reason == nil:
		return l.text("Not passed by the consumer yet: its group has not committed an offset beyond the message.")
	case *verified == client.VerifiedNo:
		return l.text("Not passed: the consumer failed again, and the message came back.")
	case reason == nil:
		return l.text("Nobody can say whether the consumer got past it.")
	}
	return l.text("Nobody can say whether the consumer got past it: %s.", l.word("reason", reason))
}
