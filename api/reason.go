package api

import (
	"github.com/gofiber/fiber/v2"
)

// noteReason keeps the operator's note for the audit.
func noteReason(c *fiber.Ctx, reason string) {
	if o := accessOf(c.UserContext()).operation; o != nil {
		o.Reason = reason
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
