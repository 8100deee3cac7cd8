package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

// corsMaxAge is how long a browser remembers the answer to a preflight request, in seconds.
const corsMaxAge = "600"

// exposedHeaders are the headers of answers that a page of another origin may read.
var exposedHeaders = strings.Join([]string{
	headerRequestID, fiber.HeaderETag, fiber.HeaderRetryAfter, fiber.HeaderLocation, fiber.HeaderLink, headerPreferenceApplied, fiber.HeaderWWWAuthenticate,
}, ", ")

// allowOrigin lets pages of the configured origins read the answer. It allows no credentials of the browser: a page sets the
// token in a header itself.
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

// checkHost refuses a request with a Host header that is no name of this server. It protects requests that need no token.
func (s *Server) checkHost(c *fiber.Ctx) error {
	host := string(c.Request().Host())
	if dlq.IsOwnHost(host, s.options.Hosts) {
		return nil
	}
	return &apiError{status: http.StatusForbidden, code: codeForbidden,
		message: fmt.Sprintf("%q is not known as a name of this server; server.allowed_hosts allows it", excerpt(host))}
}

// checkBrowser refuses requests that a browser sends for pages of other web sites. Browsers send such requests to loopback
// addresses too. They send Sec-Fetch-Site only with HTTPS and to loopback addresses. Without Sec-Fetch-Site, the Origin
// decides.
func (s *Server) checkBrowser(c *fiber.Ctx) error {
	site, origin := c.Get("Sec-Fetch-Site"), c.Get(fiber.HeaderOrigin)
	_, originHost, _ := strings.Cut(origin, "://")
	isForeign := site == "cross-site" || site == "same-site" || site == "" && origin != "" && originHost != string(c.Request().Host())
	isForeign = isForeign && !slices.Contains(s.options.CORSOrigins, origin)
	isLink := c.Method() == http.MethodGet && c.Get("Sec-Fetch-Mode") == "navigate"
	if isForeign && !isLink {
		return &apiError{status: http.StatusForbidden, code: codeForbidden,
			message: "requests of other web sites are refused; server.cors_origins allows them"}
	}
	return nil
}

// answerOptions answers OPTIONS with the methods of a route. A preflight request from a configured origin may use every header,
// since some names come from the headers of records. The wildcard does not include Authorization, so this header is named.
func answerOptions(c *fiber.Ctx, allow string) {
	c.Status(http.StatusNoContent)
	if c.GetRespHeader(fiber.HeaderAccessControlAllowOrigin) == "" || c.Get(fiber.HeaderAccessControlRequestMethod) == "" {
		return
	}
	c.Set(fiber.HeaderAccessControlAllowMethods, allow)
	c.Set(fiber.HeaderAccessControlAllowHeaders, fiber.HeaderAuthorization+", *")
	c.Set(fiber.HeaderAccessControlMaxAge, corsMaxAge)
}
