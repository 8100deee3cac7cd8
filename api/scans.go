package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dlqmanager/dlq"
)

const (
	// maxScans limits how many lists that read many messages run at once.
	maxScans = 4
	// cheapOffset is how many messages a page number may pass over and still be cheap.
	cheapOffset = 10_000
)

// isScan reports whether a list reads many more messages than it shows: it searches texts,
// or its page number is deep.
func isScan(q *dlq.ListQuery) bool {
	return q.ErrorContains != "" || q.After == nil && (q.Page-1)*q.PageSize > cheapOffset
}

// listWithin lists messages. If it reads many, it waits a short time until it may run.
func (s *Server) listWithin(ctx context.Context, q dlq.ListQuery) (dlq.Page, error) {
	if !isScan(&q) {
		return s.options.Store.List(ctx, q)
	}
	return scan(ctx, s, func() (dlq.Page, error) { return s.options.Store.List(ctx, q) })
}

// scan waits a short time until one more list that reads many rows may run.
func scan[P any](ctx context.Context, s *Server, list func() (P, error)) (page P, err error) {
	timer := time.NewTimer(s.options.ScanWait)
	defer timer.Stop()
	select {
	case s.scans <- struct{}{}:
		defer func() { <-s.scans }()
		return list()
	case <-timer.C:
		return page, unavailable(fmt.Sprintf("%d other lists of the audit, with an error filter or a deep page are running; "+
			"try again later, or use cursors", maxScans), errors.New("too many scans"))
	case <-ctx.Done():
		return page, ctx.Err()
	}
}
