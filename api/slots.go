package api

import (
	"context"
	"fmt"
	"sync"

	"dlqmanager/dlq"
)

// maxWaiting is how many requests of one principal wait for a slot at once.
const maxWaiting = 8

// slots limit how many expensive requests run at once. One principal has at most half of
// them, so that it cannot keep all others waiting.
type slots struct {
	all chan struct{} // a semaphore: one entry for each request that runs

	mu  sync.Mutex
	own map[string]*share
}

// share is the part of one principal that has requests.
type share struct {
	slots    chan struct{} // a semaphore too
	requests int           // that run or wait
}

func newSlots(n int) *slots { return &slots{all: make(chan struct{}, n), own: map[string]*share{}} }

// take waits for a slot until ctx ends. If it gets none, others tells whose requests have
// them, such as "4 other".
func (s *slots) take(ctx context.Context, p *dlq.Principal) (release func(), others string) {
	if p.Method == dlq.Anonymous.Method { // everybody, while authentication is off
		if !enter(ctx, s.all) {
			return nil, fmt.Sprintf("%d other", cap(s.all))
		}
		return func() { <-s.all }, ""
	}
	client := p.Method + " " + p.Subject
	own := s.join(client)
	if own == nil || !enter(ctx, own.slots) {
		if own != nil {
			s.leave(client)
		}
		return nil, fmt.Sprintf("%d of your other", s.half())
	}
	if !enter(ctx, s.all) {
		<-own.slots
		s.leave(client)
		return nil, fmt.Sprintf("%d other", cap(s.all))
	}
	return func() {
		<-s.all
		<-own.slots
		s.leave(client)
	}, ""
}

func (s *slots) half() int { return max(cap(s.all)/2, 1) }

// join returns nil if too many requests of the client wait.
func (s *slots) join(client string) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.own[client]
	if own == nil {
		own = &share{slots: make(chan struct{}, s.half())}
		s.own[client] = own
	}
	if own.requests >= s.half()+maxWaiting {
		return nil
	}
	own.requests++
	return own
}

func (s *slots) leave(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own[client].requests--; s.own[client].requests == 0 {
		delete(s.own, client)
	}
}

func enter(ctx context.Context, semaphore chan<- struct{}) bool {
	select {
	case semaphore <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
