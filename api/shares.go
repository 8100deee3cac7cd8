package api

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// shares divides something among clients, such as memory. A client has at most half, so that other clients need not wait
// for it.
type shares struct {
	size int64
	all  *semaphore.Weighted

	mu  sync.Mutex
	own map[string]*share
}

// share is the part of a client that has requests.
type share struct {
	*shares
	client   string
	room     *semaphore.Weighted
	requests int // that have a part of the share, or wait for it
}

func newShares(size int64) *shares {
	return &shares{size: size, all: semaphore.NewWeighted(size), own: map[string]*share{}}
}

func (s *shares) half() int64 { return max(s.size/2, 1) }

// join begins a request of a client. It returns nil if the client already has as many requests as most allows.
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

// take waits for n until ctx ends. If it gets nothing, isOwn tells whether the client's other requests are the reason.
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
