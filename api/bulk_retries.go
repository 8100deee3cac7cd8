package api

import (
	"context"
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
	limit := q.integer("limit", defaultBulks, maxBulks)
	if err := q.err(); err != nil {
		return err
	}
	bulks, err := s.options.Database.Bulks(ctx, "", limit)
	if err != nil {
		return err
	}
	view, now := bulksView{BulkRetries: make([]bulkView, 0, len(bulks))}, time.Now()
	for i := range bulks {
		view.BulkRetries = append(view.BulkRetries, s.viewBulk(&bulks[i], now))
	}
	return reply(c, http.StatusOK, view)
}

func (s *Server) bulkRetry(ctx context.Context, c *fiber.Ctx, q *query) error {
	id, err := pathID(c, "bulk retry")
	if err != nil {
		return err
	}
	verify := q.choice("verified")
	if err := q.err(); err != nil {
		return err
	}
	bulk, err := s.options.Database.Bulk(ctx, id)
	if err != nil {
		return describeNotFound(err, "bulk retry", id)
	}
	view := s.viewBulk(&bulk, time.Now())
	if verify != nil && *verify {
		if view.Verified, err = s.verifyBulk(ctx, id); err != nil {
			return err
		}
	}
	return reply(c, http.StatusOK, view)
}

func bulkEnded(b *dlq.BulkRetry, cause error) error {
	return conflict(fmt.Sprintf("bulk retry has already ended: state=%s", b.State), cause)
}
