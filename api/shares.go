package api

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// shares divides a resource among clients, such as memory or slots. A client gets at most half of it, so that no client can
// block all others.
type shares struct {
	size int64
	all  *semaphore.Weighted

	mu  sync.Mutex
	own map[string]*share
}

// share is the part of one client. It exists while the client has requests.
type share struct {
	*shares
	client   string
	room     *semaphore.Weighted
	requests int // requests that have a part of the share, or wait for a part
}

func newShares(size int64) *shares {
	return &shares{size: size, all: semaphore.NewWeighted(size), own: map[string]*share{}}
}

func (s *shares) half() int64 { return max(s.size/2, 1) }

// join begins a request of a client. It returns nil if the client already has most requests.
func (s *shares) join(client string, most int) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.own[client]
	if own == nil {
		own = &share{shares: s, client: client, room: semaphore.NewWeighted(s.half())}
		s.own[client] = own
	}
	if own.requests >= most {
		return nil
	}
	own.requests++
	return own
}

func (s *share) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests--; s.requests == 0 {
		delete(s.own, s.client)
	}
}

// take waits until the client gets n of the resource, or ctx ends. If the client gets nothing, isOwn tells whether its other
// requests are the reason.
func (s *share) take(ctx context.Context, n int64) (isTaken, isOwn bool) {
	if s.room.Acquire(ctx, n) != nil {
		return false, true
	}
	if s.all.Acquire(ctx, n) != nil {
		s.room.Release(n)
		return false, false
	}
	return true, false
}

func (s *share) release(n int64) {
	s.all.Release(n)
	s.room.Release(n)
}
