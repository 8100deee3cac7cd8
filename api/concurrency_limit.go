package api

import (
	"context"
	"fmt"

	"dlqmanager/dlq"
)

// maxWaiting is how many requests of one principal wait for a slot at once.
const maxWaiting = 8

// concurrencyLimit limits how many expensive requests run at once.
type concurrencyLimit struct{ *shares }

func newConcurrencyLimit(n int) concurrencyLimit { return concurrencyLimit{newShares(int64(n))} }

// take waits for a slot until ctx ends. If it gets none, others tells whose requests have
// them, such as "4 other".
func (l concurrencyLimit) take(ctx context.Context, p *dlq.Principal) (release func(), others string) {
	others, ofOwn := fmt.Sprintf("%d other", l.size), fmt.Sprintf("%d of your other", l.half())
	if p.Method == dlq.Anonymous.Method { // everybody, while authentication is off
		if l.all.Acquire(ctx, 1) != nil {
			return nil, others
		}
		return func() { l.all.Release(1) }, ""
	}
	own := l.join(p.Method+" "+p.Subject, int(l.half())+maxWaiting)
	if own == nil {
		return nil, ofOwn
	}
	isTaken, isOwn := own.take(ctx, 1)
	if isTaken {
		return func() { own.release(1); own.leave() }, ""
	}
	own.leave()
	if isOwn {
		return nil, ofOwn
	}
	return nil, others
}
