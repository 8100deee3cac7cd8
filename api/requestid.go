package api

import (
	"crypto/rand"
	"encoding/hex"

	"github.com/gofiber/fiber/v2"
)

const headerRequestID = "X-Request-Id"

// maxRequestID is the longest request id that is accepted from a caller.
const maxRequestID = 128

type requestIDKey struct{}

// requestIDOf returns the id of the request, which observe has set.
func requestIDOf(c *fiber.Ctx) string {
	id, _ := c.Locals(requestIDKey{}).(string)
	return id
}

// assignRequestID keeps the caller's request id if it is well formed, so that one id
// follows a request through several services. Otherwise it creates one.
func assignRequestID(c *fiber.Ctx) string {
	id := c.Get(headerRequestID)
	if !wellFormed(id) {
		id = newRequestID()
	}
	c.Locals(requestIDKey{}, id)
	return id
}

// wellFormed accepts only characters that are safe in logs, headers and shells.
func wellFormed(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for i := range len(id) {
		if !isNameByte(id[i]) {
			return false
		}
	}
	return true
}

// isNameByte reports whether b is one of A-Z, a-z, 0-9, dot, underscore and hyphen.
func isNameByte(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '.' || b == '_' || b == '-'
}

func newRequestID() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails: it ends the program instead
	return "req_" + hex.EncodeToString(b[:])
}
