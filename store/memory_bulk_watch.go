package store

import (
	"context"

	"dlqmanager/dlq"
)

// NoteBulk is like Postgres.NoteBulk.
func (m *Memory) NoteBulk(_ context.Context, id dlq.ID, reason string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.bulks[id]; b != nil && b.State == dlq.BulkRunning {
		b.Reason, b.UpdatedAt = text(reason), now()
	}
	return nil
}

// RunningBulks is like Postgres.RunningBulks.
func (m *Memory) RunningBulks(context.Context) ([]dlq.BulkRetry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var running []dlq.BulkRetry
	for _, b := range m.bulkList {
		if b.State == dlq.BulkRunning {
			running = append(running, b.snapshot())
		}
	}
	return running, nil
}
