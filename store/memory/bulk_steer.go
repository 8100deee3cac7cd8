package memory

import (
	"context"
	"fmt"
	"time"

	"dlqmanager/dlq"
)

// releasePages requeues the pages that the job still owns, and fences the attempts that
// claimed them.
func (m *Store) releasePages(b *bulk, at time.Time) {
	for i := range b.lanes {
		if lane := &b.lanes[i]; len(lane.page) > 0 {
			lane.epoch++
			m.releasePage(b, lane, at)
		}
	}
}

// steer runs change on a job. change returns false when it left the job unchanged.
func (m *Store) steer(id dlq.ID, change func(b *bulk, at time.Time) bool) (dlq.BulkRetry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.bulks[id]
	if b == nil {
		return dlq.BulkRetry{}, dlq.BulkNotFound(id)
	}
	at := m.now()
	if change(b, at) {
		b.UpdatedAt = at
	}
	return b.snapshot(at), nil
}

// StopBulk is like postgres.Store.StopBulk.
func (m *Store) StopBulk(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkRetry, error) {
	return m.steer(id, func(b *bulk, _ time.Time) bool {
		running := b.State == dlq.BulkRunning || b.State == dlq.BulkPausing
		if b.State.IsFinal() || state == dlq.BulkPausing && !running || b.State == state && b.Reason == dlq.StorableText(reason) {
			return false
		}
		b.State, b.Reason = state, dlq.StorableText(reason)
		m.record(ctx, dlq.TargetBulkRetry, id, b.Spec.Topic)
		return true
	})
}

// PauseBulk is like postgres.Store.PauseBulk.
func (m *Store) PauseBulk(ctx context.Context, id dlq.ID, reason string) (dlq.BulkRetry, error) {
	return m.steer(id, func(b *bulk, at time.Time) bool {
		if b.State.IsFinal() || b.State == dlq.BulkCancelling || b.State == dlq.BulkPaused && b.Reason == dlq.StorableText(reason) {
			return false
		}
		m.releasePages(b, at)
		b.State, b.Reason = dlq.BulkPaused, dlq.StorableText(reason)
		m.record(ctx, dlq.TargetBulkRetry, id, b.Spec.Topic)
		return true
	})
}

// HasClosedTarget is like postgres.Store.HasClosedTarget.
func (m *Store) HasClosedTarget(_ context.Context, id dlq.ID) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.bulks[id]
	return b != nil && len(b.closed()) > 0, nil
}

// ResumeBulk is like postgres.Store.ResumeBulk.
func (m *Store) ResumeBulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error) {
	return m.steer(id, func(b *bulk, at time.Time) bool {
		if b.State != dlq.BulkPaused && b.State != dlq.BulkPausing {
			return false
		}
		b.State, b.Reason, b.nextAt = dlq.BulkRunning, "", at
		m.record(ctx, dlq.TargetBulkRetry, id, b.Spec.Topic)
		for name, q := range b.queues {
			if !name.ofKey && q.due.After(at) {
				q.due = at
			}
		}
		return true
	})
}

// EndBulk is like postgres.Store.EndBulk.
func (m *Store) EndBulk(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkRetry, error) {
	if !state.IsFinal() {
		return dlq.BulkRetry{}, fmt.Errorf("store: end bulk retry %s: %s is not an end", id, state)
	}
	return m.steer(id, func(b *bulk, at time.Time) bool {
		if b.State.IsFinal() {
			return false
		}
		m.releasePages(b, at)
		for i := range b.lanes {
			b.lanes[i].waiting, b.lanes[i].blocked = nil, nil
		}
		clear(b.queues)
		b.State, b.Reason, b.EndedAt, b.Counting = state, dlq.StorableText(reason), &at, false
		done := b.snapshot(at).Counts.Done()
		b.Counts.Skipped = max(b.Matched-done, 0)
		b.Matched = max(b.Matched, done)
		counts := b.snapshot(at).Counts
		m.recordEnd(ctx, dlq.TargetBulkRetry, dlq.PermBulkRetryCreate, b.Owner(), state, id, b.Spec.Topic, map[string]any{
			"state": state, "reason": b.Reason, "matched": b.Matched,
			"retried": counts.Retried, "failed": counts.Failed, "dead": counts.Dead, "skipped": counts.Skipped})
		return true
	})
}

// SetBulkRate is like postgres.Store.SetBulkRate.
func (m *Store) SetBulkRate(ctx context.Context, id dlq.ID, rate int) error {
	_, err := m.steer(id, func(b *bulk, _ time.Time) bool {
		if b.State.IsFinal() {
			return false
		}
		b.Spec.RateLimit = dlq.StorableCount(rate)
		m.record(ctx, dlq.TargetBulkRetry, id, b.Spec.Topic)
		return true
	})
	return err
}

// SetStepLimit is like postgres.Store.SetStepLimit.
func (m *Store) SetStepLimit(_ context.Context, id dlq.ID, messages *int64) error {
	_, err := m.steer(id, func(b *bulk, _ time.Time) bool {
		if b.State.IsFinal() {
			return false
		}
		b.stepLimit = nil
		if messages != nil {
			limit := max(*messages, 0)
			b.stepLimit = &limit
		}
		return true
	})
	return err
}
