package api

import (
	"net/http"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
)

// Console has HTML pages that people read and change things with.
type Console struct {
	// Pages answers all paths below Path, and gets them without Path. Its context is one of a request of this server: InMemory
	// knows by it whose requests it sends.
	Pages http.Handler
	// Path is where the pages begin, such as /console. Empty: at the root, beside the API.
	Path string
	// Roots are the first segments of the paths of pages.
	Roots []string
}

// pageHeaders are set by every page itself.
var pageHeaders = []string{
	fiber.HeaderContentSecurityPolicy, fiber.HeaderCacheControl, fiber.HeaderReferrerPolicy, fiber.HeaderXContentTypeOptions,
}

// console serves the pages. They need no permission of their own, since each calls the API with the rights of its user.
func (s *Server) console() {
	pages := s.options.Console
	if pages == nil {
		return
	}
	answer := adaptor.HTTPHandler(http.StripPrefix(pages.Path, pages.Pages))
	handler := func(c *fiber.Ctx) error {
		if s.options.Auth == nil {
			if err := s.checkHost(c); err != nil {
				return err
			}
		}
		for _, header := range pageHeaders {
			c.Response().Header.Del(header) // the pages have their own
		}
		return answer(c)
	}
	paths := []string{pages.Path + "/"}
	for _, root := range pages.Roots {
		paths = append(paths, pages.Path+"/"+root, pages.Path+"/"+root+"/*")
	}
	for _, path := range paths {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			s.app.Add(method, path, handler)
		}
	}
}
