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
	snapshotAt time.Time // messages that changed later are not claimed
	lanes      []laneState
	queues     map[queueID]*queue
	stepLimit  *int64
	nextAt     time.Time // when the rate limit allows the next message
}

type laneState struct {
	cursor  int64
	epoch   int
	attempt dlq.LaneAttempt
	counts  dlq.BulkCounts
	window  rateWindow
	page    []dlq.ID
	waiting []waiting
	blocked map[targetKey]bool // the keys of failed messages
	// targetOf is where the job sends a message.
	targetOf func(*entry) string
}

// rateWindow counts the messages of the current ten seconds and of the previous ten.
type rateWindow struct {
	startedAt       time.Time
	count, previous int64
}

const windowLength = 10 * time.Second

func (w *rateWindow) add(n int64, at time.Time) {
	switch age := at.Sub(w.startedAt); {
	case age < windowLength:
		w.count += n
	case age < 2*windowLength:
		w.startedAt, w.previous, w.count = w.startedAt.Add(windowLength), w.count, n
	default:
		w.startedAt, w.previous, w.count = at, 0, n
	}
}

// recent is the approximate number of messages in the ten seconds before a time.
func (w *rateWindow) recent(at time.Time) float64 {
	switch age := float64(at.Sub(w.startedAt)) / float64(windowLength); {
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

// retryable reports whether a bulk retry may claim the message.
func (m *Store) retryable(e *entry, b *bulk) bool {
	return e.Status == dlq.StatusPending && e.RetryCount < e.MaxRetries && e.Seq <= b.UpperBound && !e.UpdatedAt.After(b.snapshotAt) &&
		matches(e, &b.Spec.Filter) && m.topics.CheckOrigin(&e.Message) == nil && m.inReach(e, b.Spec.Within) && (!e.Suspicious || b.Spec.IncludeSuspicious)
}

// inReach is dlq.Topics.MaySend for a job that is limited to the topics within.
func (m *Store) inReach(e *entry, within string) bool {
	return within == "" || m.topics.MaySend(e.DLQTopic, e.OriginalTopic, !e.Record.IsEmpty() && isWithin(e.OriginalTopic, within))
}

// conflictingJob returns a running bulk retry that conflicts with a new one, or nil.
func (m *Store) conflictingJob(f *dlq.Filter) *bulk {
	for _, other := range m.bulkList {
		if !other.State.IsFinal() && m.share(f, &other.Spec.Filter) {
			return other
		}
	}
	return nil
}

// CreateBulk is like postgres.Store.CreateBulk.
func (m *Store) CreateBulk(ctx context.Context, b dlq.BulkRetry) (dlq.BulkRetry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	spec := b.Spec.Storable()
	if other := m.conflictingJob(&spec.Filter); other != nil {
		if !other.Spec.IsSameWork(spec) {
			return dlq.BulkRetry{}, &dlq.BulkBusyError{Topic: spec.Topic, Running: other.ID}
		}
		m.recordJoin(ctx, dlq.TargetBulkRetry, other.Owner(), other.ID, spec.Topic)
		return other.snapshot(m.now()), nil
	}
	started := m.now()
	n := &bulk{snapshotAt: started, nextAt: started, BulkRetry: dlq.BulkRetry{ID: b.ID, WorkflowID: b.WorkflowID, Spec: spec,
		State: dlq.BulkRunning, Lanes: max(b.Lanes, 1), UpperBound: m.lastSeq, Counting: true, StartedAt: started, UpdatedAt: started}}
	n.lanes, n.queues = make([]laneState, n.Lanes), map[queueID]*queue{}
	for i := range n.lanes {
		n.lanes[i].window.startedAt, n.lanes[i].blocked = started, map[targetKey]bool{}
		n.lanes[i].targetOf = func(e *entry) string { return m.targetOf(e, spec.TargetTopic) }
	}
	m.bulks[b.ID] = n
	m.bulkList = append(m.bulkList, n)
	m.recordCreation(ctx, dlq.TargetBulkRetry, n.Owner(), b.ID, spec.Topic)
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
			b.MultiTarget = b.MultiTarget || b.Matched > 0 && m.targetOf(e, b.Spec.TargetTopic) != target
			b.Matched++
			target = m.targetOf(e, b.Spec.TargetTopic)
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
func (m *Store) Bulks(_ context.Context, within string, limit int) ([]dlq.BulkRetry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []dlq.BulkRetry
	at := m.now()
	for _, b := range slices.Backward(m.bulkList) {
		if len(list) >= limit {
			break
		}
		if isWithin(b.Spec.Topic, within) {
			list = append(list, b.snapshot(at))
		}
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
