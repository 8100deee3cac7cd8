package dlq

import (
	"cmp"
	"slices"
)

// EndedClaim is a message of a page whose claim has ended.
type EndedClaim struct {
	Candidate
	// Status is the status after the claim. If another owner has delivered the message, the status is RESOLVED.
	Status Status
}

// Settlement says what follows from the outcomes of a page.
type Settlement struct {
	// Counts has the messages of this page.
	Counts JobCounts
	// Failed are the retries that were counted and did not deliver. FailedKeys are the messages of these retries, except for
	// messages that another owner has delivered. The keys of FailedKeys are blocked.
	Failed     []PageOutcome
	FailedKeys []Candidate
	// Wait are the messages that go into queues, and Queues the states of these queues, each once and in an order
	// that is the same for all lanes.
	Wait   []Candidate
	Queues []Queue
	// Opened are the open targets that outcomes name (PageOutcome.Target), unless a message waits for them. Some were not closed.
	Opened []Target
}

// Settle decides what follows from the outcomes. ended has the claims that the outcomes have ended. If the lane has lost
// a claim, the outcome is not counted, but can open its target like any other outcome.
func Settle(outcomes []PageOutcome, ended map[ID]*EndedClaim) Settlement {
	s := Settlement{}
	refused := map[Target]bool{}
	for i := range outcomes {
		o := &outcomes[i]
		m, isEnded := ended[o.ID]
		switch {
		case !isEnded:
		case o.Result == ResultDelivered:
			s.Counts.Retried++
		case o.Result == ResultWaiting:
			m.WaitsIn = QueueID{Target: o.Wait.Target, Key: NoKey}
			if o.Wait.OfKey {
				m.WaitsIn.Key = m.Key
			} else {
				refused[o.Wait.Target] = true
			}
			s.Wait = append(s.Wait, m.Candidate)
			s.Queues = append(s.Queues, Queue{QueueID: m.WaitsIn, Tries: o.Wait.Tries, Due: o.Wait.For, Reason: o.Error, Category: o.Category})
		case o.Result.IsUncounted():
			s.Counts.Skipped++
		default:
			s.Failed = append(s.Failed, *o)
			switch m.Status {
			case StatusDead:
				s.Counts.Dead++
			case StatusPending:
				s.Counts.Failed++
			case StatusResolved, StatusRetrying: // another owner has delivered the message; no claim ends as RETRYING
				continue
			}
			s.FailedKeys = append(s.FailedKeys, m.Candidate)
		}
	}
	slices.SortStableFunc(s.Queues, func(a, b Queue) int {
		return cmp.Or(cmp.Compare(a.Target.Topic, b.Target.Topic), cmp.Compare(a.Target.Partition, b.Target.Partition),
			cmp.Compare(a.Key, b.Key), cmp.Compare(b.Tries, a.Tries))
	})
	s.Queues = slices.CompactFunc(s.Queues, func(a, b Queue) bool { return a.QueueID == b.QueueID })
	for i := range outcomes {
		topic := outcomes[i].Target.Topic
		for _, t := range []Target{outcomes[i].Target, {Topic: topic, Partition: AnyPartition}} {
			if topic != "" && !refused[t] {
				refused[t] = true // once
				s.Opened = append(s.Opened, t)
			}
		}
	}
	return s
}
