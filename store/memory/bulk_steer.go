package memory

import (
	"context"
	"fmt"
	"time"

	"dlqmanager/dlq"
)

// standstill gives back what the job still owns.
func (m *Store) standstill(b *bulk, at time.Time) {
	owner := b.Owner()
	for _, e := range m.order {
		if e.ownedBy(owner) {
			e.finish(dlq.Outcome{Result: dlq.ResultReturned}, at)
			b.takeBack(e)
		}
	}
}

// steer runs change on a job at a time; it returns false to leave the job as it is.
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

// PauseBulk is like postgres.Store.PauseBulk.
func (m *Store) PauseBulk(_ context.Context, id dlq.ID, reason string) (dlq.BulkRetry, error) {
	return m.steer(id, func(b *bulk, at time.Time) bool {
		if b.State.IsFinal() || b.State == dlq.BulkPaused && b.Reason == dlq.Text(reason) {
			return false
		}
		m.standstill(b, at) // one that is paused owns nothing
		b.State, b.Reason = dlq.BulkPaused, dlq.Text(reason)
		return true
	})
}

// ResumeBulk is like postgres.Store.ResumeBulk.
func (m *Store) ResumeBulk(_ context.Context, id dlq.ID) (dlq.BulkRetry, error) {
	return m.steer(id, func(b *bulk, at time.Time) bool {
		if b.State != dlq.BulkPaused {
			return false
		}
		b.State, b.Reason, b.nextAt = dlq.BulkRunning, "", at
		return true
	})
}

// EndBulk is like postgres.Store.EndBulk.
func (m *Store) EndBulk(_ context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkRetry, error) {
	if !state.IsFinal() {
		return dlq.BulkRetry{}, fmt.Errorf("store: end bulk retry %s: %s is not an end", id, state)
	}
	return m.steer(id, func(b *bulk, at time.Time) bool {
		if b.State.IsFinal() {
			return false
		}
		m.standstill(b, at)
		b.State, b.Reason, b.EndedAt, b.Counting = state, dlq.Text(reason), &at, false
		done := b.snapshot(at).Counts.Done()
		b.Counts.Skipped = max(b.Matched-done, 0)
		b.Matched = max(b.Matched, done)
		return true
	})
}

// SetBulkRate is like postgres.Store.SetBulkRate.
func (m *Store) SetBulkRate(_ context.Context, id dlq.ID, rate int) error {
	_, err := m.steer(id, func(b *bulk, _ time.Time) bool {
		if b.State.IsFinal() {
			return false
		}
		b.Spec.RateLimit = dlq.StorableCount(rate)
		return true
	})
	return err
}

// SetBulkAllowance is like postgres.Store.SetBulkAllowance.
func (m *Store) SetBulkAllowance(_ context.Context, id dlq.ID, messages *int64) error {
	_, err := m.steer(id, func(b *bulk, _ time.Time) bool {
		if b.State.IsFinal() {
			return false
		}
		b.allowance = nil
		if messages != nil {
			allowance := max(*messages, 0)
			b.allowance = &allowance
		}
		return true
	})
	return err
}

// NoteBulk is like postgres.Store.NoteBulk.
func (m *Store) NoteBulk(_ context.Context, id dlq.ID, reason string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.bulks[id]; b != nil && b.State == dlq.BulkRunning && b.Reason != dlq.Text(reason) {
		b.Reason, b.UpdatedAt = dlq.Text(reason), m.now()
	}
	return nil
}
