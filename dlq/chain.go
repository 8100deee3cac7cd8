package dlq

import "slices"

// ChainLimit is how many messages of a chain are read at most.
const ChainLimit = 1000

// Chain is a message with its predecessors and successors. A message
// can come back several times, so a chain is a tree.
type Chain struct {
	// Hops are sorted by their arrival.
	Hops []Hop
	// Truncated is set when Hops does not have the whole chain. Hops then has the ChainLimit messages with the fewest steps
	// from the requested message. Truncated is also set when attempts are left out, because all attempts together exceed
	// ListBytes.
	Truncated bool
}

// Hop is one message of a chain. Its payload and its error are not read.
type Hop struct {
	Message
	Source   Source
	Archived bool
	Edits    Edits
	// Attempts are the same as in Detail.
	Attempts []Attempt
}

// Retries are all retries of the message that have ended, oldest first. The retry that delivered the message is not stored
// as an attempt, unless it had lost its claim. Retries makes an attempt for that retry from the message itself.
func (h *Hop) Retries() []Attempt {
	if h.Ended() != ResolutionDelivered || h.LastRetryAt == nil || h.Owner.IsZero() ||
		slices.ContainsFunc(h.Attempts, func(a Attempt) bool { return a.Result == ResultDelivered && a.Owner == h.Owner }) {
		return h.Attempts
	}
	return append(h.Attempts[:len(h.Attempts):len(h.Attempts)], Attempt{
		Number: h.RetryCount, Owner: h.Owner, StartedAt: *h.LastRetryAt, EndedAt: h.UpdatedAt, Result: ResultDelivered,
	})
}
