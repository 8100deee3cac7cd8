package api

import (
	"github.com/gofiber/fiber/v2"
)

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
