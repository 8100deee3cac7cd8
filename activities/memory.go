package activities

import (
	"context"

	"golang.org/x/sync/semaphore"

	"dlqmanager/dlq"
)

// DefaultMemory is the budget of a worker that says nothing else.
const DefaultMemory = 64 << 20

// Memory is the budget of a process for the messages that its activities hold, in
// bytes. Those that want more than is left wait. Nil is no limit.
type Memory struct {
	room  *semaphore.Weighted
	bytes int64
}

// NewMemory is a budget of so many bytes, and of a page (dlq.PageBytes) at least. One
// message that is greater is held alone.
func NewMemory(bytes int64) *Memory {
	bytes = max(bytes, dlq.PageBytes)
	return &Memory{room: semaphore.NewWeighted(bytes), bytes: bytes}
}

// take waits for room until ctx ends. The caller gives it back.
func (m *Memory) take(ctx context.Context, bytes int64) (give func(), err error) {
	if m == nil {
		return func() {}, nil
	}
	bytes = min(bytes, m.bytes)
	if err := m.room.Acquire(ctx, bytes); err != nil {
		return nil, err
	}
	return func() { m.room.Release(bytes) }, nil
}
