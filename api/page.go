package api

import (
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

// withPage adds a Link header to the answer of a handler. It links to the console's page of a message, a group or a job. The
// Location of the answer names this resource, or else the path of a GET or HEAD.
func (s *Server) withPage(next fiber.Handler) fiber.Handler {
	if s.options.Pages == "" {
		return next
	}
	return func(c *fiber.Ctx) error {
		if err := next(c); err != nil {
			return err
		}
		path := c.GetRespHeader(fiber.HeaderLocation)
		if path == "" && (c.Method() == http.MethodGet || c.Method() == http.MethodHead) {
			path = c.Path()
		}
		if page := s.pageOf(path); page != "" && c.Response().StatusCode() < http.StatusBadRequest {
			c.Set(fiber.HeaderLink, "<"+page+`>; rel="alternate"; type="text/html"`)
		}
		return nil
	}
}

// pageOf returns the console's page for a path of the API; empty if there is no page.
func (s *Server) pageOf(path string) string {
	for prefix, page := range map[string]func(dlq.ID) string{
		"/api/v1/dlq/messages/": s.options.Pages.Message, "/api/v1/archive/messages/": s.options.Pages.Archived,
		"/api/v1/groups/": s.options.Pages.Group, "/api/v1/jobs/": s.options.Pages.Job,
	} {
		if name, ok := strings.CutPrefix(path, prefix); ok {
			if id, err := dlq.ParseID(name); err == nil {
				return page(id)
			}
		}
	}
	return ""
}
