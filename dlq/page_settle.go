package dlq

import (
	"cmp"
	"slices"
	"time"
)

// EndedClaim is a message of a page whose claim has ended.
type EndedClaim struct {
	Candidate
	// Status is the status after the claim. If another owner has delivered the message, the status is RESOLVED.
	Status Status
}

// QueueState is the state of a queue after its target, or the first message of its key, was tried.
type QueueState struct {
	ID QueueID
	// Tries is the number of tries without success in a row. If Tries is 0, nothing was tried, and an existing queue keeps its state.
	Tries int
	// For is how long to wait before the next try.
	For      time.Duration
	Reason   string
	Category Category
}

// IsClosed reports whether the queue is the queue of a closed target, which single messages try again.
func (q *QueueState) IsClosed() bool { return q.ID.Key == NoKey && q.Tries > 0 }

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
	Queues []QueueState
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
			queue := QueueID{Target: o.Wait.Target, Key: NoKey}
			if o.Wait.OfKey {
				queue.Key = m.Key
			} else {
				refused[o.Wait.Target] = true
			}
			m.WaitsIn = queue
			s.Wait = append(s.Wait, m.Candidate)
			s.Queues = append(s.Queues, QueueState{ID: queue, Tries: o.Wait.Tries, For: o.Wait.For, Reason: o.Error, Category: o.Category})
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
	slices.SortStableFunc(s.Queues, func(a, b QueueState) int {
		return cmp.Or(cmp.Compare(a.ID.Target.Topic, b.ID.Target.Topic), cmp.Compare(a.ID.Target.Partition, b.ID.Target.Partition),
			cmp.Compare(a.ID.Key, b.ID.Key), cmp.Compare(b.Tries, a.Tries))
	})
	s.Queues = slices.CompactFunc(s.Queues, func(a, b QueueState) bool { return a.ID == b.ID })
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
