package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"dlqmanager/dlq"
)

// bulk is a bulk retry with its lanes.
type bulk struct {
	dlq.BulkRetry
	lanes []laneState
}

type laneState struct {
	cursor int64
	counts dlq.BulkCounts
}

// snapshot is the bulk retry with the sum of its lanes.
func (b *bulk) snapshot() dlq.BulkRetry {
	s := b.BulkRetry
	for _, lane := range b.lanes {
		s.Counts.Retried += lane.counts.Retried
		s.Counts.Failed += lane.counts.Failed
		s.Counts.Dead += lane.counts.Dead
	}
	return s
}

// retryable is what a bulk retry of the topic takes.
func (m *Memory) retryable(e *entry, topic string, bound int64) bool {
	return e.Status == dlq.StatusPending && e.RetryCount < e.MaxRetries && e.Seq <= bound && inTopic(e, topic) &&
		m.topics.CheckOrigin(&e.Message) == nil
}

// StartBulk is like Postgres.StartBulk.
func (m *Memory) StartBulk(_ context.Context, b dlq.BulkRetry) (dlq.BulkRetry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.bulks[b.ID]; known != nil {
		return known.snapshot(), nil
	}
	started := now()
	n := &bulk{BulkRetry: dlq.BulkRetry{ID: b.ID, WorkflowID: b.WorkflowID, Topic: topicText(b.Topic), State: dlq.BulkRunning,
		Lanes: max(b.Lanes, 1), StartedAt: started, UpdatedAt: started}}
	n.lanes = make([]laneState, n.Lanes)
	for _, e := range m.order {
		if inTopic(e, n.Topic) {
			n.Bound = e.Seq
		}
	}
	for _, e := range m.order {
		if m.retryable(e, n.Topic, n.Bound) {
			n.Matched++
		}
	}
	m.bulks[b.ID] = n
	m.bulkList = append(m.bulkList, n)
	return n.snapshot(), nil
}

// lane finds the state of a lane.
func (m *Memory) lane(lane dlq.Lane) (*bulk, *laneState, error) {
	b := m.bulks[lane.Bulk]
	if b == nil || lane.Number < 0 || lane.Number >= len(b.lanes) {
		return nil, nil, fmt.Errorf("lane %d of bulk retry %s: %w", lane.Number, lane.Bulk, dlq.ErrNotFound)
	}
	return b, &b.lanes[lane.Number], nil
}

func inLaneOf(e *entry, lane dlq.Lane) bool {
	return int(e.keyHash)%max(lane.Of, 1) == lane.Number
}

// ClaimedPage is like Postgres.ClaimedPage.
func (m *Memory) ClaimedPage(_ context.Context, lane dlq.Lane) ([]dlq.Envelope, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var page []dlq.Envelope
	for _, e := range m.order {
		if e.ownedBy(lane.Owner) && inLaneOf(e, lane) {
			page = append(page, e.envelope())
		}
	}
	return page, nil
}

// ClaimPage is like Postgres.ClaimPage.
func (m *Memory) ClaimPage(_ context.Context, lane dlq.Lane) ([]dlq.Envelope, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, state, err := m.lane(lane)
	if errors.Is(err, dlq.ErrNotFound) || b.State != dlq.BulkRunning {
		return nil, nil
	}
	var page []dlq.Envelope
	start, _ := m.place(state.cursor + 1)
	for _, e := range m.order[start:] {
		if len(page) == dlq.PageSize || e.Seq > lane.Bound {
			break
		}
		if inLaneOf(e, lane) && m.retryable(e, lane.Topic, lane.Bound) {
			e.claim(lane.Owner)
			page = append(page, e.envelope())
			state.cursor, b.UpdatedAt = e.Seq, e.UpdatedAt
		}
	}
	return page, nil
}

// FinalizePage is like Postgres.FinalizePage.
func (m *Memory) FinalizePage(_ context.Context, lane dlq.Lane, outcomes []dlq.Outcome) (dlq.BulkCounts, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, state, err := m.lane(lane)
	if err != nil {
		return dlq.BulkCounts{}, err
	}
	for _, o := range outcomes {
		e := m.byID[o.ID]
		if e == nil || !e.ownedBy(lane.Owner) {
			continue
		}
		e.finish(o)
		switch {
		case o.Result == dlq.ResultDelivered:
			state.counts.Retried++
		case o.Result == dlq.ResultReturned:
		case e.Status == dlq.StatusPending:
			state.counts.Failed++
		default:
			state.counts.Dead++
		}
	}
	b.UpdatedAt = now()
	return state.counts, nil
}

// EndBulk is like Postgres.EndBulk.
func (m *Memory) EndBulk(_ context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkRetry, error) {
	if state == dlq.BulkRunning {
		return dlq.BulkRetry{}, fmt.Errorf("store: end bulk retry %s: %s is not an end", id, state)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.bulks[id]
	if b == nil {
		return dlq.BulkRetry{}, bulkNotFound(id)
	}
	if b.State != dlq.BulkRunning {
		return b.snapshot(), nil
	}
	m.release(dlq.Owner{WorkflowID: b.WorkflowID, RunID: id.String()}, dlq.Outcome{Result: dlq.ResultReturned})
	ended := now()
	b.State, b.Reason, b.EndedAt, b.UpdatedAt = state, text(reason), &ended, ended
	done := b.snapshot().Counts.Done()
	b.Counts.Skipped = max(b.Matched-done, 0)
	b.Matched = max(b.Matched, done)
	return b.snapshot(), nil
}

// Bulk is like Postgres.Bulk.
func (m *Memory) Bulk(_ context.Context, id dlq.ID) (dlq.BulkRetry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.bulks[id]
	if b == nil {
		return dlq.BulkRetry{}, bulkNotFound(id)
	}
	return b.snapshot(), nil
}

func bulkNotFound(id dlq.ID) error { return fmt.Errorf("bulk retry %s: %w", id, dlq.ErrNotFound) }

// Bulks is like Postgres.Bulks.
func (m *Memory) Bulks(_ context.Context, limit int) ([]dlq.BulkRetry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []dlq.BulkRetry
	for _, b := range slices.Backward(m.bulkList) {
		if len(list) >= limit {
			break
		}
		list = append(list, b.snapshot())
	}
	return list, nil
}
