package api

import (
	"crypto/rand"
	"encoding/hex"
	"regexp"

	"github.com/gofiber/fiber/v2"
)

const headerRequestID = "X-Request-Id"

// wellFormedID has only characters that are safe in logs, headers and shells.
var wellFormedID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

type requestIDKey struct{}

// requestIDOf returns the id of the request, which observe has set.
func requestIDOf(c *fiber.Ctx) string {
	id, _ := c.Locals(requestIDKey{}).(string)
	return id
}

// assignRequestID keeps the caller's request id if it is well formed, so that one id follows a request through several
// services. Otherwise it creates an id.
func assignRequestID(c *fiber.Ctx) string {
	id := c.Get(headerRequestID)
	if !wellFormedID.MatchString(id) {
		id = newRequestID()
	}
	c.Locals(requestIDKey{}, id)
	return id
}

func newRequestID() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // rand.Read never fails; without randomness it ends the program
	return "req_" + hex.EncodeToString(b[:])
}
