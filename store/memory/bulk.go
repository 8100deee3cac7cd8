package memory

import (
	"context"
	"slices"
	"time"

	"dlqmanager/dlq"
)

// bulk is a bulk retry with its lanes.
type bulk struct {
	dlq.BulkRetry
	frozenAt  time.Time // what changed later is not taken
	lanes     []laneState
	queues    map[queueName]*queue
	allowance *int64
	nextAt    time.Time // when the rate limit allows the next message
}

type laneState struct {
	cursor  int64
	epoch   int
	attempt dlq.LaneAttempt
	counts  dlq.BulkCounts
	window  rateWindow
	page    []dlq.ID
	waiting []waiting
	blocked map[keyName]bool // the keys of messages that have failed
}

// rateWindow counts the ten seconds that are under way and those before.
type rateWindow struct {
	startedAt       time.Time
	count, previous int64
}

const rateSpan = 10 * time.Second

func (w *rateWindow) add(n int64, at time.Time) {
	switch age := at.Sub(w.startedAt); {
	case age < rateSpan:
		w.count += n
	case age < 2*rateSpan:
		w.startedAt, w.previous, w.count = w.startedAt.Add(rateSpan), w.count, n
	default:
		w.startedAt, w.previous, w.count = at, 0, n
	}
}

// recent is how many there were in the ten seconds before at, about.
func (w *rateWindow) recent(at time.Time) float64 {
	switch age := float64(at.Sub(w.startedAt)) / float64(rateSpan); {
	case age < 1:
		return float64(w.count) + float64(w.previous)*(1-age)
	case age < 2:
		return float64(w.count) * (2 - age)
	default:
		return 0
	}
}

// snapshot is the bulk retry with the sum of its lanes at a time.
func (b *bulk) snapshot(at time.Time) dlq.BulkRetry {
	s := b.BulkRetry
	s.Spec = s.Spec.Storable()
	recent := 0.0
	for i := range b.lanes {
		lane := &b.lanes[i]
		s.Counts.Retried += lane.counts.Retried
		s.Counts.Failed += lane.counts.Failed
		s.Counts.Dead += lane.counts.Dead
		s.Counts.Skipped += lane.counts.Skipped
		s.Waiting += int64(len(lane.waiting))
		recent += lane.window.recent(at)
	}
	if s.State == dlq.BulkRunning && s.Waiting > 0 {
		s.Reason = b.waitReason()
	}
	s.RecentPerSecond = recent / min(10, max(1, at.Sub(s.StartedAt).Seconds()))
	return s
}

// retryable is what a bulk retry takes.
func (m *Store) retryable(e *entry, b *bulk) bool {
	return e.Status == dlq.StatusPending && e.RetryCount < e.MaxRetries && e.Seq <= b.UpperBound && !e.UpdatedAt.After(b.frozenAt) &&
		matches(e, &b.Spec.Filter) && m.topics.CheckOrigin(&e.Message) == nil
}

// busy finds a bulk retry that is in the way of another on a topic, or nil.
func (m *Store) busy(topic string) *bulk {
	for _, other := range m.bulkList {
		shared := func(e *entry) bool { return inTopic(e, topic) && inTopic(e, other.Spec.Topic) }
		if !other.State.IsFinal() && (other.Spec.Topic == topic || slices.ContainsFunc(m.order, shared)) {
			return other
		}
	}
	return nil
}

// CreateBulk is like postgres.Store.CreateBulk.
func (m *Store) CreateBulk(_ context.Context, b dlq.BulkRetry) (dlq.BulkRetry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	spec := b.Spec.Storable()
	if other := m.busy(spec.Topic); other != nil {
		if !other.Spec.IsSameWork(spec) {
			return dlq.BulkRetry{}, &dlq.BulkBusyError{Topic: spec.Topic, Running: other.ID}
		}
		return other.snapshot(m.now()), nil
	}
	started := m.now()
	n := &bulk{frozenAt: started, nextAt: started, BulkRetry: dlq.BulkRetry{ID: b.ID, WorkflowID: b.WorkflowID, Spec: spec,
		State: dlq.BulkRunning, Lanes: max(b.Lanes, 1), UpperBound: m.lastSeq, Counting: true, StartedAt: started, UpdatedAt: started}}
	n.lanes, n.queues = make([]laneState, n.Lanes), map[queueName]*queue{}
	for i := range n.lanes {
		n.lanes[i].window.startedAt, n.lanes[i].blocked = started, map[keyName]bool{}
	}
	m.bulks[b.ID] = n
	m.bulkList = append(m.bulkList, n)
	return n.snapshot(started), nil
}

// CountBulk is like postgres.Store.CountBulk.
func (m *Store) CountBulk(_ context.Context, id dlq.ID) (dlq.BulkRetry, error) {
	return m.steer(id, func(b *bulk, _ time.Time) bool {
		if !b.Counting {
			return false
		}
		target := ""
		for _, e := range m.order {
			if !m.retryable(e, b) {
				continue
			}
			b.MultiTarget = b.MultiTarget || b.Matched > 0 && e.OriginalTopic != target
			b.Matched++
			target = e.OriginalTopic
		}
		b.Counting = false
		return true
	})
}

// Bulk is like postgres.Store.Bulk.
func (m *Store) Bulk(_ context.Context, id dlq.ID) (dlq.BulkRetry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.bulks[id]
	if b == nil {
		return dlq.BulkRetry{}, dlq.BulkNotFound(id)
	}
	return b.snapshot(m.now()), nil
}

// Bulks is like postgres.Store.Bulks.
func (m *Store) Bulks(_ context.Context, limit int) ([]dlq.BulkRetry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []dlq.BulkRetry
	at := m.now()
	for _, b := range slices.Backward(m.bulkList) {
		if len(list) >= limit {
			break
		}
		list = append(list, b.snapshot(at))
	}
	return list, nil
}

// RunningBulks is like postgres.Store.RunningBulks.
func (m *Store) RunningBulks(context.Context) ([]dlq.BulkRetry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var running []dlq.BulkRetry
	at := m.now()
	for _, b := range slices.Backward(m.bulkList) {
		if !b.State.IsFinal() {
			running = append(running, b.snapshot(at))
		}
	}
	return running, nil
}
