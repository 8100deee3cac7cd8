package webhook

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"dlqmanager/dlq"
)

// page has the messages of one call of Publish for one endpoint.
type page struct {
	publisher  *Publisher
	target     *target
	envelopes  []dlq.Envelope
	deliveries []dlq.Delivery
	closed     bool
	// A chain has the indexes of messages that are sent one after the other. keys has the chain of each key.
	chains [][]int
	keys   map[string]int
	// stopped is set once the endpoint would refuse further requests too.
	stopped atomic.Bool
}

func (p *page) add(i int, isOrdered bool) {
	key := p.envelopes[i].Record.Key
	chain, found := p.keys[string(key)]
	if !isOrdered || key == nil || !found {
		chain = len(p.chains)
		p.chains = append(p.chains, nil)
	}
	if isOrdered && key != nil {
		p.keys[string(key)] = chain
	}
	p.chains[chain] = append(p.chains[chain], i)
}

// run sends the chains in parallel. They begin in the order of their first messages.
func (p *page) run(ctx context.Context) {
	// A request that begins after this deadline might not end in time.
	deadline, _ := ctx.Deadline()
	starting, cancel := context.WithDeadline(ctx, deadline.Add(-p.target.timeout))
	defer cancel()
	var senders errgroup.Group
	senders.SetLimit(p.target.concurrency)
	for _, chain := range p.chains {
		senders.Go(func() error { p.sendChain(ctx, starting, chain); return nil })
	}
	_ = senders.Wait()
}

func (p *page) sendChain(ctx, starting context.Context, chain []int) {
	var failed error
	for _, i := range chain {
		switch {
		case failed != nil && errors.Is(failed, dlq.ErrTargetClosed):
			p.deliveries[i].Err = failed
		case failed != nil:
			p.deliveries[i].Err = &dlq.BlockedError{Cause: failed}
		default:
			failed = p.send(ctx, starting, i)
			p.deliveries[i].Err = failed
		}
		if d := &p.deliveries[i]; d.Err == nil {
			d.Acknowledgement = &dlq.Acknowledgement{Topic: d.Target.Topic, Partition: dlq.AnyPartition, Offset: -1}
		}
	}
}

var (
	errStopped = fmt.Errorf("%w: another request of the page showed it", dlq.ErrTargetClosed)
	errNoTime  = fmt.Errorf("%w: earlier requests take too long", dlq.ErrTargetClosed)
)

func (p *page) send(ctx, starting context.Context, i int) error {
	t := p.target
	if p.closed {
		return dlq.ErrTargetClosed
	}
	if t.slots.Acquire(starting, 1) != nil {
		return errNoTime
	}
	defer t.slots.Release(1)
	if pause := t.pause(); pause > 0 {
		err := fmt.Errorf("%s wants no requests for %s", t.name, pause.Round(time.Second))
		return &dlq.DeliveryError{Category: dlq.CategoryRateLimit, RetryAfter: pause, Err: err}
	}
	if p.stopped.Load() {
		return errStopped
	}
	started := time.Now()
	err := t.send(ctx, &p.envelopes[i], p.publisher.o.Original)
	var refused *dlq.DeliveryError
	switch {
	case err == nil:
		p.publisher.o.Metrics.Observe(ctx, time.Since(started))
	case errors.As(err, &refused):
		p.learn(refused)
	}
	return err
}

// learn remembers a refusal that every message would get. A page stops if the endpoint is away, or if its credentials or its
// configuration are wrong. If the endpoint wants a pause, no page sends requests during the pause. A 500 tells nothing about
// other messages.
func (p *page) learn(refused *dlq.DeliveryError) {
	switch {
	case refused.Category == dlq.CategoryRateLimit:
		// The answer to an older request does not shorten the pause.
		end, known := time.Now().Add(max(refused.RetryAfter, defaultPause)).UnixNano(), p.target.notBefore.Load()
		for known < end && !p.target.notBefore.CompareAndSwap(known, end) {
			known = p.target.notBefore.Load()
		}
	case refused.TargetOnly, refused.Category == dlq.CategoryTransient && !refused.MaybeMessage && !refused.MessageOnly:
		p.stopped.Store(true)
	}
}

// defaultPause is how long an endpoint gets no requests after a 429 without Retry-After.
const defaultPause = time.Second
