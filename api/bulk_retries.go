package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

const (
	defaultBulks = 50
	maxBulks     = 200
)

func (s *Server) bulkRetries(ctx context.Context, c *fiber.Ctx, q *query) error {
	limit := q.integer("limit", defaultBulks, 1, maxBulks)
	if err := q.err(); err != nil {
		return err
	}
	bulks, err := s.options.Store.Bulks(ctx, limit)
	if err != nil {
		return err
	}
	view, now := bulksView{BulkRetries: make([]bulkView, 0, len(bulks))}, time.Now()
	for i := range bulks {
		view.BulkRetries = append(view.BulkRetries, s.viewBulk(&bulks[i], now))
	}
	return reply(c, http.StatusOK, view)
}

func (s *Server) bulkRetry(ctx context.Context, c *fiber.Ctx, _ *query) error {
	id, err := pathID(c, "bulk retry")
	if err != nil {
		return err
	}
	bulk, err := s.findBulk(ctx, id)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, s.viewBulk(&bulk, time.Now()))
}

// findBulk reads a bulk retry. One that no worker has taken up yet has no row,
// and is known to Temporal alone. One that Temporal does not list as running may
// have begun, and even ended, since the first look.
func (s *Server) findBulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error) {
	bulk, err := s.options.Store.Bulk(ctx, id)
	if errors.Is(err, dlq.ErrNotFound) {
		bulk, err = s.options.Retries.FindRetryAll(ctx, id)
	}
	if errors.Is(err, dlq.ErrNotFound) {
		bulk, err = s.options.Store.Bulk(ctx, id)
	}
	return bulk, about(err, "bulk retry", id)
}

func bulkEnded(b *dlq.BulkRetry, cause error) error {
	return conflict(fmt.Sprintf("bulk retry has already ended: state=%s", b.State), cause)
}
