package api

import (
	"context"
	"errors"
	"fmt"

	"dlqmanager/dlq"
)

// maxWaiting limits the requests of one principal that wait for a slot.
const maxWaiting = 8

// takeSlot waits until an expensive request gets a slot, or ctx ends. Without a slot, release is nil, and others tells whose
// requests have the slots, such as "4 other" or "2 of your other".
func (l *shares) takeSlot(ctx context.Context, p *dlq.Principal) (release func(), others string) {
	others, ofOwn := fmt.Sprintf("%d other", l.size), fmt.Sprintf("%d of your other", l.half())
	if p.Method == dlq.Anonymous.Method { // all senders are Anonymous while authentication is off
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

// cheapOffset is the number of messages that a list may pass over to reach its page, and still be cheap.
const cheapOffset = 10_000

// readsMany reports whether a list reads many more messages than it shows, since no index serves its filter or its page number
// is high. A list of a group also reads many messages if the sender may see some topics only.
func readsMany(ctx context.Context, q *dlq.ListQuery) bool {
	isSearch := !q.IsLookup() && (q.IsText() || q.ReadsRecords() || q.OriginPartition != nil)
	isDeep := q.After == nil && (q.Page-1)*q.PageSize > cheapOffset
	return isSearch || isDeep || !q.Group.IsZero() && accessOf(ctx).withinRoute() != ""
}

// scan runs a list. A list that reads many rows waits a short time for a slot.
func scan[P any](ctx context.Context, s *Server, readsMany bool, list func() (P, error)) (page P, err error) {
	if !readsMany {
		return list()
	}
	release, err := s.slot(ctx, s.scanLimit, "lists of the audit, of groups, with a search or a deep page are running; try again later, or use cursors")
	if err != nil {
		return page, err
	}
	defer release()
	return list()
}

// slot waits a short time for a slot. busy describes the running requests for the error.
func (s *Server) slot(ctx context.Context, limit *shares, busy string) (release func(), err error) {
	wait, cancel := context.WithTimeout(ctx, s.options.ScanWait)
	defer cancel()
	release, others := limit.takeSlot(wait, accessOf(ctx).Principal)
	switch {
	case release != nil:
		return release, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	default:
		return nil, unavailable(others+" "+busy, errors.New("too many requests of this kind"))
	}
}
