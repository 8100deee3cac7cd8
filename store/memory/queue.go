package memory

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"dlqmanager/dlq"
)

// queueID identifies a queue of a job: that of a target, or of a key.
type queueID struct {
	target  dlq.Target
	ofKey   bool
	keyHash int32 // -1 unless ofKey
}

// queue is the state of a queue. The messages in it are in laneState.waiting.
type queue struct {
	closed   bool
	tries    int
	due      time.Time
	reason   string
	category dlq.Category
}

// waiting is a message in a queue.
type waiting struct {
	seq     int64
	id      dlq.ID
	keyHash int32
	queue   queueID
}

// targetKey is a record key of a target. The order of a key is kept for each target.
type targetKey struct{ target, key string }

// targetOf is where a message is sent by a retry with a requested target, or with none.
func (m *Store) targetOf(e *entry, requested string) string {
	if requested != "" {
		return requested
	}
	target, _ := m.Targets.Of(e.OriginalTopic, "")
	return target
}

func (l *laneState) keyOf(e *entry) targetKey { return targetKey{l.targetOf(e), string(e.Record.Key)} }

// keyHashOf is the hash of a key and the target.
func (l *laneState) keyHashOf(e *entry) int32 {
	return e.keyHash ^ dlq.KeyHash([]byte(l.targetOf(e)), e.ID)
}

func (q *queue) laneQueue(name queueID, at time.Time) *dlq.LaneQueue {
	return &dlq.LaneQueue{Target: name.target, OfKey: name.ofKey, Tries: q.tries, Due: max(q.due.Sub(at), 0), Reason: q.reason, Category: q.category}
}

// closed are the closed targets.
func (b *bulk) closed() []dlq.Target {
	var targets []dlq.Target
	for name, q := range b.queues {
		if q.closed {
			targets = append(targets, name.target)
		}
	}
	return targets
}

// nextQueue is the queue of the lane that is due first, or nil.
func (b *bulk) nextQueue(state *laneState) (first queueID, due *queue) {
	for i := range state.waiting {
		name := state.waiting[i].queue
		if q := b.queues[name]; due == nil || q.due.Before(due.due) {
			first, due = name, q
		}
	}
	return first, due
}

// waitReason is the reason of one of the queues, preferably that of a closed target.
func (b *bulk) waitReason() string {
	var found *queue
	for _, name := range slices.SortedFunc(maps.Keys(b.queues), func(a, b queueID) int {
		return cmp.Or(cmp.Compare(a.target.Topic, b.target.Topic), cmp.Compare(a.target.Partition, b.target.Partition), cmp.Compare(a.keyHash, b.keyHash))
	}) {
		if q := b.queues[name]; found == nil || q.closed && !found.closed {
			found = q
		}
	}
	if found == nil {
		return ""
	}
	return found.reason
}

// requeue puts a message that was not delivered into a queue, and gives it back to the
// limits of the job.
func (b *bulk) requeue(state *laneState, e *entry, o *dlq.PageOutcome, at time.Time) queueID {
	name := queueID{target: o.Wait.Target, ofKey: o.Wait.OfKey, keyHash: -1}
	if name.ofKey {
		name.keyHash = state.keyHashOf(e)
	}
	q := b.queues[name]
	if q == nil || o.Wait.Tries > 0 {
		q = &queue{closed: !name.ofKey && o.Wait.Tries > 0, tries: o.Wait.Tries, due: at.Add(o.Wait.For),
			reason: dlq.StorableText(o.Error), category: o.Category}
		b.queues[name] = q
	}
	state.enqueue(e, name)
	if b.stepLimit != nil {
		*b.stepLimit++
	}
	if rate := b.Spec.RateLimit; rate > 0 {
		b.nextAt = b.nextAt.Add(-time.Second / time.Duration(rate))
	}
	return name
}

// reopen opens a closed target that acknowledged or rejected a message, unless another
// message of the page found it closed.
func (b *bulk) reopen(target dlq.Target, tried map[queueID]bool, at time.Time) {
	for _, partition := range []int32{target.Partition, dlq.AnyPartition} {
		name := queueID{target: dlq.Target{Topic: target.Topic, Partition: partition}, keyHash: -1}
		if q := b.queues[name]; q != nil && q.closed && !tried[name] {
			q.closed, q.tries, q.due = false, 0, at
		}
	}
}

// enqueue puts a message into a queue, in the order of arrival.
func (l *laneState) enqueue(e *entry, name queueID) {
	w := waiting{seq: e.Seq, id: e.ID, keyHash: l.keyHashOf(e), queue: name}
	at, _ := slices.BinarySearchFunc(l.waiting, w, func(a, b waiting) int { return cmp.Compare(a.seq, b.seq) })
	l.waiting = slices.Insert(l.waiting, at, w)
}

// removeWaiting removes a message from its queue.
func (l *laneState) removeWaiting(id dlq.ID) {
	l.waiting = slices.DeleteFunc(l.waiting, func(w waiting) bool { return w.id == id })
}

// queueOfEarlier is the queue of an earlier message of the key.
func (l *laneState) queueOfEarlier(e *entry) (queueID, bool) {
	for i := range l.waiting {
		if l.waiting[i].keyHash == l.keyHashOf(e) {
			return l.waiting[i].queue, true
		}
	}
	return queueID{}, false
}

// earlierWaitsElsewhere reports whether an earlier message of the key is in another queue.
func (l *laneState) earlierWaitsElsewhere(w waiting) bool {
	return slices.ContainsFunc(l.waiting, func(o waiting) bool {
		return o.keyHash == w.keyHash && o.seq < w.seq && o.queue != w.queue
	})
}

// hasWaitingIn reports whether a queue has messages.
func (l *laneState) hasWaitingIn(name queueID) bool {
	return slices.ContainsFunc(l.waiting, func(w waiting) bool { return w.queue == name })
}
