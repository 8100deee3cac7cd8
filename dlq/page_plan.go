package dlq

import (
	"slices"
	"time"
)

// NoKey is the Key in the QueueID of a closed target's queue.
const NoKey int32 = -1

// QueueID names a queue of a job: the queue of a closed target, or the queue of a key.
type QueueID struct {
	// Target is the closed target. In the queue of a key, Target is the topic as a whole.
	Target Target
	// Key is the TargetKey of the messages; NoKey in the queue of a target.
	Key int32
}

// OfKey reports whether the queue is the queue of a key.
func (q QueueID) OfKey() bool { return q.Key != NoKey }

// Queue is a queue of a job. Its messages wait for the same closed target, or for an earlier message of their key.
type Queue struct {
	QueueID
	// Tries is how often in a row the target, or the first message of the key, was tried without success. In a Settlement
	// and in a Plan, 0 means that nothing was tried: then an existing queue keeps its state.
	Tries int
	// Due is how long it is until the next try.
	Due time.Duration
	// Reason and Category are why the messages wait.
	Reason   string
	Category Category
	// Keys is how many keys have messages that wait for a closed target, among the messages that the lane has read. Each
	// try takes another key, so each key was tried about Tries / Keys times. Only LaneClaim.Queue has Keys.
	Keys int
}

// IsClosed reports whether the queue is the queue of a closed target, which single messages try again.
func (q *Queue) IsClosed() bool { return !q.OfKey() && q.Tries > 0 }

// KeyQueue is the queue of a key.
func KeyQueue(target string, key int32) QueueID {
	return QueueID{Target: Target{Topic: target, Partition: AnyPartition}, Key: key}
}

// TargetKey hashes a key and a target to a non-negative number: the order of a key is kept for each target separately.
// The messages of two keys with the same number may wait for each other for a short time.
func TargetKey(keyHash int32, target string) int32 {
	return (keyHash ^ KeyHash([]byte(target), ID{})) & 0x7fffffff
}

// Candidate is a message that a lane may claim next.
type Candidate struct {
	ID            ID
	Seq           int64
	OriginalTopic string
	// Target is where the message goes.
	Target string
	// KeyHash is the KeyHash of the record's key, and Key the TargetKey.
	KeyHash, Key int32
	Size         int64
	// RetryCount is the number of the claim, of a message that the lane has claimed.
	RetryCount int
	// WaitsIn is the queue that the message waits in; zero if none. In lists named Wait, it is the queue that the message enters.
	WaitsIn QueueID
	// IsHeld is set if the message cannot be claimed now: another transaction has locked or changed it, another owner retries
	// it, or the page has no room for it.
	IsHeld bool
	// IsGone is set if a message of a queue has left the scope: another client has changed or finished it. It leaves its queue.
	IsGone bool
}

// Earlier is an unfinished message that is no candidate. It blocks the candidates of its key that arrived later.
type Earlier struct {
	Key int32
	Seq int64
	// Queue is where the message waits; nil if another owner retries it.
	Queue *QueueID
}

// Listing is what a lane has read to decide which messages it claims next.
type Listing struct {
	// Candidates are in the order of arrival.
	Candidates []Candidate
	Earlier    []Earlier
	// Closed is set if the candidates wait for a closed target, which was tried Tries times in vain.
	Closed bool
	Tries  int
	// Ordered is set if the order of keys is kept.
	Ordered bool
	// Quota is how many messages the limits of the job allow now.
	Quota int
}

// Plan is the decision on the candidates. A candidate in no list stays in its queue: the page is full, or another message tries the target.
type Plan struct {
	Claim []Candidate
	// Wait has the messages that go into a queue, and Created the queues that may have to be created for them. Stay has the
	// blocked messages that are in the right queue already. Gone has the messages that leave their queues.
	Wait       []Candidate
	Created    []Queue
	Stay, Gone []Candidate
	// Keys is how many keys have a message that could try the closed target.
	Keys int
}

// Bytes is the size of the claimed messages.
func (p *Plan) Bytes() (bytes int64) {
	for i := range p.Claim {
		bytes += p.Claim[i].Size
	}
	return bytes
}

// Fit shortens the candidates after the cursor to a page: at most the quota, at most PageBytes, and at least a message.
// It reports whether messages may follow the page: Fit has left out candidates, or the listing may be incomplete.
//
// Rows that were copied by hand may share a seq. The cursor passes such rows together: if only some of them fit, they all go
// to the next page. If they are the first rows, they all go to this page instead, and the rows that do not fit are marked as
// held. Rows with the same seq that were not listed are left out of the job.
func (l *Listing) Fit() bool {
	all, fit := l.Candidates, 0
	for bytes := int64(0); fit < len(all) && fit < l.Quota; fit++ {
		if bytes += all[fit].Size; fit > 0 && bytes > PageBytes {
			break
		}
	}
	end := fit
	for end > 0 && end < len(all) && all[end-1].Seq == all[fit].Seq {
		end--
	}
	if end == 0 {
		for end < len(all) && all[end].Seq == all[0].Seq {
			all[end].IsHeld = end >= fit
			end++
		}
	}
	l.Candidates = all[:end]
	return end < len(all) || end > PageSize
}

// Plan decides what becomes of each candidate. A message is blocked while it is held. If the order of keys is kept, a message is
// also blocked while an earlier message of its key is blocked, waits in another queue, or is retried by another owner. A blocked
// message goes into the queue where the earlier message waits, or else into the queue of its key.
//
// Messages that are not blocked are claimed. A page from a queue has at most the quota, at most PageBytes, and at least a message.
// A single message tries a closed target: the first message of a key. Each try takes another key, because the target may refuse
// only some messages.
func (l *Listing) Plan() Plan {
	p := Plan{Claim: make([]Candidate, 0, len(l.Candidates))}
	blocked := map[int32]QueueID{}
	seen := map[int32]bool{}
	var firsts []Candidate
	bytes := int64(0)
	for _, m := range l.Candidates {
		if m.IsGone {
			p.Gone = append(p.Gone, m)
			continue
		}
		queue, isBlocked := blocked[m.Key]
		if !isBlocked {
			var isNew bool
			queue, isNew, isBlocked = l.blockedBy(&m)
			if isNew && !slices.ContainsFunc(p.Created, func(q Queue) bool { return q.QueueID == queue }) {
				p.Created = append(p.Created, Queue{QueueID: queue, Due: time.Second,
					Reason: "an earlier message of the key is being retried or changed by another client"})
			}
		}
		isFirst := !seen[m.Key]
		seen[m.Key] = true
		switch {
		case isBlocked:
			if l.Ordered {
				blocked[m.Key] = queue
			}
			if queue == m.WaitsIn {
				p.Stay = append(p.Stay, m)
			} else {
				m.WaitsIn = queue
				p.Wait = append(p.Wait, m)
			}
		case l.Closed:
			if isFirst {
				firsts = append(firsts, m)
			}
		default:
			bytes += m.Size
			isFull := len(p.Claim) >= l.Quota || len(p.Claim) > 0 && bytes > PageBytes
			if !isFull || m.WaitsIn == (QueueID{}) {
				p.Claim = append(p.Claim, m)
			}
		}
	}
	if p.Keys = len(firsts); p.Keys > 0 {
		p.Claim = []Candidate{firsts[l.Tries%p.Keys]}
	}
	return p
}

// blockedBy is the queue in which a message has to wait. isNew is set if that queue may have to be created.
func (l *Listing) blockedBy(m *Candidate) (queue QueueID, isNew, isBlocked bool) {
	isBlocked = m.IsHeld
	for i := range l.Earlier {
		switch e := &l.Earlier[i]; {
		case !l.Ordered || e.Key != m.Key || e.Seq >= m.Seq:
		case e.Queue == nil:
			isBlocked = true
		default:
			return *e.Queue, false, true
		}
	}
	queue = KeyQueue(m.Target, m.Key)
	return queue, isBlocked && queue != m.WaitsIn, isBlocked
}

// JobLimits are the limits of a job over all its lanes.
type JobLimits struct {
	// Rate is in messages per second; 0 is no limit.
	Rate int
	// NextAt is when the rate allows the next message.
	NextAt time.Time
	// Step is how many messages the step of a ramp may still send; nil is no limit.
	Step *int64
}

// rateBurst is the maximum of unused time that later claims may use. maxRateWait is the longest wait after a claim of one
// message: a second, at the rate of one message per second.
const (
	rateBurst   = 100 * time.Millisecond
	maxRateWait = time.Second
)

// Exist reports whether there is a limit.
func (l *JobLimits) Exist() bool { return l.Rate > 0 || l.Step != nil }

// Quota is how many messages may be claimed after the time wait: at most a page, and at most the rest of the step. The rate
// allows the messages of a tenth of a second, and at least one message.
func (l *JobLimits) Quota(now time.Time) (n int, wait time.Duration) {
	n = PageSize
	if l.Rate > 0 {
		n, wait = min(n, max(l.Rate/10, 1)), max(l.next(now).Sub(now), 0)
	}
	if l.Step != nil {
		n = int(min(int64(n), *l.Step))
	}
	return n, wait
}

// Charge subtracts n claimed messages from the limits. After idle time, messages of up to two tenths of a second need no wait.
func (l *JobLimits) Charge(n int, now time.Time) {
	if l.Rate > 0 {
		l.NextAt = l.next(now)
	}
	l.add(n)
}

// next is when the rate allows the next message. A NextAt beyond maxRateWait is ignored: the clock was set back.
func (l *JobLimits) next(now time.Time) time.Time {
	switch earliest := now.Add(-rateBurst); {
	case l.NextAt.Before(earliest):
		return earliest
	case l.NextAt.After(now.Add(maxRateWait)):
		return now
	}
	return l.NextAt
}

// Refund gives n claimed messages back to the limits, because these messages were requeued.
func (l *JobLimits) Refund(n int) { l.add(-n) }

func (l *JobLimits) add(n int) {
	if l.Rate > 0 {
		l.NextAt = l.NextAt.Add(time.Duration(n) * time.Second / time.Duration(l.Rate))
	}
	if l.Step != nil {
		left := *l.Step - int64(n)
		l.Step = &left
	}
}
