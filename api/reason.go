package api

import (
	"github.com/gofiber/fiber/v2"
	"go.uber.org/zap"
)

// noteReason keeps the operator's note for the access log.
func noteReason(c *fiber.Ctx, reason string) {
	if reason != "" {
		addLogField(c, zap.String("reason", reason))
	}
}

// readReason reads a body that has at most a reason.
func readReason(c *fiber.Ctx) error {
	b := readBody(c, "reason")
	b.reason(c)
	return b.err()
}

func (b *body) reason(c *fiber.Ctx) string {
	reason, _ := b.text("reason", maxBulkText)
	noteReason(c, reason)
	return reason
}
