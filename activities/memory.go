package activities

import (
	"context"

	"golang.org/x/sync/semaphore"

	"dlqmanager/dlq"
)

// DefaultMemory is the default budget of a worker, in bytes.
const DefaultMemory = 64 << 20

// Memory is the budget of a process for the messages of its activities, in bytes. A
// caller waits while too little is left. Nil means no limit.
type Memory struct {
	semaphore *semaphore.Weighted
	bytes     int64
}

// NewMemory returns a budget of this size, but of at least a page (dlq.PageBytes). A
// message that is larger than the budget gets the whole budget.
func NewMemory(bytes int64) *Memory {
	bytes = max(bytes, dlq.PageBytes)
	return &Memory{semaphore: semaphore.NewWeighted(bytes), bytes: bytes}
}

// acquire waits for memory until ctx ends. The caller must call release.
func (m *Memory) acquire(ctx context.Context, bytes int64) (release func(), err error) {
	if m == nil {
		return func() {}, nil
	}
	bytes = min(bytes, m.bytes)
	if err := m.semaphore.Acquire(ctx, bytes); err != nil {
		return nil, err
	}
	return func() { m.semaphore.Release(bytes) }, nil
}

// tryAcquire takes memory, unless too little is left or another caller waits.
func (m *Memory) tryAcquire(bytes int64) (release func(), isTaken bool) {
	if m == nil {
		return func() {}, true
	}
	bytes = min(bytes, m.bytes)
	return func() { m.semaphore.Release(bytes) }, m.semaphore.TryAcquire(bytes)
}
