package console

import "dlqmanager/client"

// verified says whether the consumer got past a message; nothing for one that was not delivered.
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
