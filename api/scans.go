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
	timer := time.NewTimer(s.options.ScanWait)
	defer timer.Stop()
	select {
	case s.scans <- struct{}{}:
		defer func() { <-s.scans }()
		return s.options.Store.List(ctx, q)
	case <-timer.C:
		return dlq.Page{}, unavailable(fmt.Sprintf("%d other lists with an error filter or a deep page are running; "+
			"try again later, or use cursors", maxScans), errors.New("too many scans"))
	case <-ctx.Done():
		return dlq.Page{}, ctx.Err()
	}
}
