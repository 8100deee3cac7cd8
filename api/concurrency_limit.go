package api

import (
	"context"
	"fmt"
	"sync"

	"dlqmanager/dlq"
)

// maxWaiting is how many requests of one principal wait for a slot at once.
const maxWaiting = 8

// concurrencyLimit limits how many expensive requests run at once. A principal has at most half of
// the slots, so that the requests of other principals need not wait for its own.
type concurrencyLimit struct {
	all chan struct{} // a semaphore: one entry for each request that runs

	mu  sync.Mutex
	own map[string]*share
}

// share is the part of one principal that has requests.
type share struct {
	slots    chan struct{} // a semaphore too
	requests int           // that run or wait
}

func newConcurrencyLimit(n int) *concurrencyLimit {
	return &concurrencyLimit{all: make(chan struct{}, n), own: map[string]*share{}}
}

// take waits for a slot until ctx ends. If it gets none, others tells whose requests have
// them, such as "4 other".
func (l *concurrencyLimit) take(ctx context.Context, p *dlq.Principal) (release func(), others string) {
	if p.Method == dlq.Anonymous.Method { // everybody, while authentication is off
		if !enter(ctx, l.all) {
			return nil, fmt.Sprintf("%d other", cap(l.all))
		}
		return func() { <-l.all }, ""
	}
	client := p.Method + " " + p.Subject
	own := l.join(client)
	if own == nil || !enter(ctx, own.slots) {
		if own != nil {
			l.leave(client)
		}
		return nil, fmt.Sprintf("%d of your other", l.half())
	}
	if !enter(ctx, l.all) {
		<-own.slots
		l.leave(client)
		return nil, fmt.Sprintf("%d other", cap(l.all))
	}
	return func() {
		<-l.all
		<-own.slots
		l.leave(client)
	}, ""
}

func (l *concurrencyLimit) half() int { return max(cap(l.all)/2, 1) }

// join returns nil if too many requests of the client wait.
func (l *concurrencyLimit) join(client string) *share {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.own[client]
	if own == nil {
		own = &share{slots: make(chan struct{}, l.half())}
		l.own[client] = own
	}
	if own.requests >= l.half()+maxWaiting {
		return nil
	}
	own.requests++
	return own
}

func (l *concurrencyLimit) leave(client string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.own[client].requests--; l.own[client].requests == 0 {
		delete(l.own, client)
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
