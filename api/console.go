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

// Console has HTML pages that people read and change things with.
type Console struct {
	// Pages answers all paths below Path, and gets them without Path. The context of its requests names the client, so that
	// InMemory knows for whom it sends requests.
	Pages http.Handler
	// Path is where the pages begin, such as /console. Empty: at the root, beside the API.
	Path string
	// Roots are the first segments of the paths of pages.
	Roots []string
	// Links are the links in the head of the pages. The reference of the API has them too.
	Links []PageLink
}

// PageLink is a link to a page, whose path is below the console's.
type PageLink struct{ Path, Text string }

// pageHeaders are set by every page itself.
var pageHeaders = []string{
	fiber.HeaderContentSecurityPolicy, fiber.HeaderCacheControl, fiber.HeaderReferrerPolicy, fiber.HeaderXContentTypeOptions,
}

// pageTimeout is the longest time for a page. It is longer than the API takes for any request of a page.
const pageTimeout = 2 * time.Minute

// console serves the pages. They need no permission of their own, since each calls the API with the rights of its user.
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
			c.Response().Header.Del(header) // the pages have their own
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
	// If the pages have a path of their own, they answer all unknown addresses below that path. The API answers unknown addresses
	// beside it: browsers do not send the cookies of the pages there, so a page would know neither the person nor the language.
	if pages.Path != "" {
		add(pages.Path+"/*", handler)
		return
	}
	s.app.Use(func(c *fiber.Ctx) error {
		err := c.Next() // no route follows: the error tells whether another method has one
		if unknown := (*fiber.Error)(nil); errors.As(err, &unknown) && unknown.Code == http.StatusNotFound && isPerson(c) {
			return handler(c)
		}
		return err
	})
}

// isPerson tells whether a browser asks for an address outside the API. Programs read JSON.
func isPerson(c *fiber.Ctx) bool {
	return (c.Method() == http.MethodGet || c.Method() == http.MethodHead) && !strings.HasPrefix(c.Path(), "/api/") &&
		strings.Contains(c.Get(fiber.HeaderAccept), fiber.MIMETextHTML)
}

// overviewKey marks requests for the page at the root, since the middleware observe has the same path.
type overviewKey struct{}

// pageContext has the client and the id of a request for InMemory. The request's own context cannot be used: it ends with the
// server, while pages are still being made, and fasthttp uses it again for the next request.
func pageContext(request context.Context) (context.Context, context.CancelFunc) {
	ctx := context.WithValue(context.Background(), clientKey{}, request.Value(clientKey{}))
	ctx = context.WithValue(ctx, requestIDKey{}, request.Value(requestIDKey{}))
	return context.WithTimeout(ctx, pageTimeout)
}
