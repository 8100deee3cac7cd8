package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
)

// Console has the HTML pages of the console.
type Console struct {
	// Pages answers all paths below Path. The paths of its requests do not have the prefix Path. The context of its requests
	// names the client, so that the calls through InMemory count for this client.
	Pages http.Handler
	// Path is the prefix of the paths of pages, such as /console. If it is empty, the pages are at the root, beside the API.
	Path string
	// Roots are the first path segments of pages.
	Roots []string
	// Links are the links in the head of the pages. The API reference at /docs has the same links.
	Links []PageLink
}

// PageLink is a link to a page. Path is relative to the console's path.
type PageLink struct{ Path, Text string }

// pageHeaders are set by every page itself.
var pageHeaders = []string{
	fiber.HeaderContentSecurityPolicy, fiber.HeaderCacheControl, fiber.HeaderReferrerPolicy, fiber.HeaderXContentTypeOptions,
}

// pageTimeout limits the time for a page. It exceeds the time of every API request that a page makes.
const pageTimeout = 2 * time.Minute

// console serves the pages. They need no permission of their own, since each page calls the API with the rights of its user.
func (s *Server) console() {
	pages := s.options.Console
	if pages == nil {
		return
	}
	stripped := http.StripPrefix(pages.Path, pages.Pages)
	answer := adaptor.HTTPHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := pageContext(r.Context())
		defer cancel()
		stripped.ServeHTTP(w, r.WithContext(ctx))
	}))
	handler := func(c *fiber.Ctx) error {
		if s.options.Auth == nil {
			if err := s.checkHost(c); err != nil {
				return err
			}
		}
		for _, header := range pageHeaders {
			c.Response().Header.Del(header) // the pages set their own headers
		}
		c.Request().Header.Set(headerRequestID, requestIDOf(c)) // for the log of the pages
		return answer(c)
	}
	overview := func(c *fiber.Ctx) error {
		c.Locals(overviewKey{}, pages.Path+"/")
		return handler(c)
	}
	add := func(path string, handler fiber.Handler) {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			s.app.Add(method, path, handler)
		}
	}
	add(pages.Path+"/", overview)
	for _, root := range pages.Roots {
		add(pages.Path+"/"+root, handler)
		add(pages.Path+"/"+root+"/*", handler)
	}
	// If the pages have a prefix, they answer all unknown paths below it. The API answers the unknown paths outside the prefix,
	// where browsers do not send the cookies of the pages: a page would know neither the person nor the language.
	if pages.Path != "" {
		add(pages.Path+"/*", handler)
		return
	}
	s.app.Use(func(c *fiber.Ctx) error {
		err := c.Next() // no route follows; the error tells whether the path has a route for another method
		if unknown := (*fiber.Error)(nil); errors.As(err, &unknown) && unknown.Code == http.StatusNotFound && isPerson(c) {
			return handler(c)
		}
		return err
	})
}

// isPerson tells whether a browser asks for a path outside the API. Programs ask for JSON.
func isPerson(c *fiber.Ctx) bool {
	return (c.Method() == http.MethodGet || c.Method() == http.MethodHead) && !strings.HasPrefix(c.Path(), "/api/") &&
		strings.Contains(c.Get(fiber.HeaderAccept), fiber.MIMETextHTML)
}

// overviewKey marks requests for the page at the root. Fiber shows the same route "/" for the middleware observe.
type overviewKey struct{}

// pageContext has the client and the id of a request, for calls through InMemory. A page cannot use the context of the request.
// That context ends with the server, while pages are still being made. And fasthttp reuses it for the next request.
func pageContext(request context.Context) (context.Context, context.CancelFunc) {
	ctx := context.WithValue(context.Background(), clientKey{}, request.Value(clientKey{}))
	ctx = context.WithValue(ctx, requestIDKey{}, request.Value(requestIDKey{}))
	return context.WithTimeout(ctx, pageTimeout)
}
