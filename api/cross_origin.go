package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// corsMaxAge is how long a browser remembers the answer to a preflight request, in seconds.
const corsMaxAge = "600"

// exposedHeaders are those of answers that a page of another origin may read.
var exposedHeaders = strings.Join([]string{
	headerRequestID, fiber.HeaderRetryAfter, fiber.HeaderLocation, headerPreferenceApplied, fiber.HeaderWWWAuthenticate,
}, ", ")

// allowOrigin lets pages of the configured origins read the answer. Tokens are in a header
// that the page sets itself, so no credentials of the browser are allowed.
func (s *Server) allowOrigin(c *fiber.Ctx) {
	if len(s.options.CORSOrigins) == 0 {
		return
	}
	c.Vary(fiber.HeaderOrigin)
	if origin := c.Get(fiber.HeaderOrigin); slices.Contains(s.options.CORSOrigins, origin) {
		c.Set(fiber.HeaderAccessControlAllowOrigin, origin)
		c.Set(fiber.HeaderAccessControlExposeHeaders, exposedHeaders)
	}
}

// answerOptions answers OPTIONS of a route with its methods. For a preflight request from a
// configured origin, it allows the headers that this API reads.
func answerOptions(c *fiber.Ctx, allow string) {
	c.Status(http.StatusNoContent)
	if c.GetRespHeader(fiber.HeaderAccessControlAllowOrigin) == "" || c.Get(fiber.HeaderAccessControlRequestMethod) == "" {
		return
	}
	c.Set(fiber.HeaderAccessControlAllowMethods, allow)
	c.Set(fiber.HeaderAccessControlAllowHeaders, strings.Join([]string{
		fiber.HeaderAuthorization, fiber.HeaderContentType, headerPrefer, headerRequestID,
	}, ", "))
	c.Set(fiber.HeaderAccessControlMaxAge, corsMaxAge)
}
