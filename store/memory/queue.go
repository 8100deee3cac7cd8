package memory

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"dlqmanager/dlq"
)

// queueName tells the queues of a job apart: that of a target, or of a key.
type queueName struct {
	target  dlq.Target
	ofKey   bool
	keyHash int32 // -1 unless ofKey
}

// queue is what messages of a job wait for.
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
	queue   queueName
}

// keyName is a key of a topic.
type keyName struct{ topic, key string }

func nameOf(e *entry) keyName { return keyName{e.OriginalTopic, string(e.Record.Key)} }

func (q *queue) view(name queueName, at time.Time) *dlq.LaneQueue {
	return &dlq.LaneQueue{Target: name.target, OfKey: name.ofKey, Tries: q.tries, Due: max(q.due.Sub(at), 0), Reason: q.reason, Category: q.category}
}

// closed are the targets that take nothing.
func (b *bulk) closed() []dlq.Target {
	var targets []dlq.Target
	for name, q := range b.queues {
		if q.closed {
			targets = append(targets, name.target)
		}
	}
	return targets
}

// firstDue is the queue of the lane that is due first, or nil.
func (b *bulk) firstDue(state *laneState) (first queueName, due *queue) {
	for i := range state.waiting {
		name := state.waiting[i].queue
		if q := b.queues[name]; due == nil || q.due.Before(due.due) {
			first, due = name, q
		}
	}
	return first, due
}

// waitReason is that of one of the queues, of a closed target if there is one.
func (b *bulk) waitReason() string {
	var found *queue
	for _, name := range slices.SortedFunc(maps.Keys(b.queues), func(a, b queueName) int {
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

// giveBack puts a message that its target did not take into a queue.
func (b *bulk) giveBack(state *laneState, e *entry, o *dlq.PageOutcome, at time.Time) queueName {
	name := queueName{target: o.Wait.Target, ofKey: o.Wait.OfKey, keyHash: -1}
	if name.ofKey {
		name.keyHash = e.ofTopic
	}
	q := b.queues[name]
	if q == nil || o.Wait.Tries > 0 {
		q = &queue{closed: !name.ofKey && o.Wait.Tries > 0, tries: o.Wait.Tries, due: at.Add(o.Wait.For), reason: dlq.Text(o.Error), category: o.Category}
		b.queues[name] = q
	}
	state.wait(e, name)
	if b.allowance != nil {
		*b.allowance++
	}
	if rate := b.Spec.RateLimit; rate > 0 {
		b.nextAt = b.nextAt.Add(-time.Second / time.Duration(rate))
	}
	return name
}

// reopen lets the messages go that wait for a target which took one.
func (b *bulk) reopen(target dlq.Target, asked map[queueName]bool, at time.Time) {
	for _, partition := range []int32{target.Partition, dlq.AnyPartition} {
		name := queueName{target: dlq.Target{Topic: target.Topic, Partition: partition}, keyHash: -1}
		if q := b.queues[name]; q != nil && q.closed && !asked[name] {
			q.closed, q.tries, q.due = false, 0, at
		}
	}
}

// wait puts a message into a queue, in the order of arrival.
func (l *laneState) wait(e *entry, name queueName) {
	w := waiting{seq: e.Seq, id: e.ID, keyHash: e.ofTopic, queue: name}
	at, _ := slices.BinarySearchFunc(l.waiting, w, func(a, b waiting) int { return cmp.Compare(a.seq, b.seq) })
	l.waiting = slices.Insert(l.waiting, at, w)
}

// leave takes a message out of its queue.
func (l *laneState) leave(id dlq.ID) {
	l.waiting = slices.DeleteFunc(l.waiting, func(w waiting) bool { return w.id == id })
}

// waitsFor is the queue of an earlier message of the key.
func (l *laneState) waitsFor(e *entry) (queueName, bool) {
	for i := range l.waiting {
		if l.waiting[i].keyHash == e.ofTopic {
			return l.waiting[i].queue, true
		}
	}
	return queueName{}, false
}

// waitsElsewhere tells whether an earlier message of the key waits in another queue.
func (l *laneState) waitsElsewhere(w waiting) bool {
	return slices.ContainsFunc(l.waiting, func(o waiting) bool {
		return o.keyHash == w.keyHash && o.seq < w.seq && o.queue != w.queue
	})
}

// waitsIn tells whether a message is in a queue.
func (l *laneState) waitsIn(name queueName) bool {
	return slices.ContainsFunc(l.waiting, func(w waiting) bool { return w.queue == name })
}
