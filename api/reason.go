package api

import (
	"github.com/gofiber/fiber/v2"
)

// readReason reads a body that has at most a reason.
func readReason(c *fiber.Ctx) error {
	b := readBody(c, "reason")
	b.reason(c)
	return b.err()
}

func (b *body) reason(c *fiber.Ctx) string {
	reason, _ := b.text("reason", maxBulkText)
	auditOf(c).Reason = reason
	return reason
}
