package api

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// unknownRoute is the label of everything that no route matches: paths are the
// caller's choice, and labels must stay few.
const unknownRoute = "unknown"

// observe surrounds every routed request: request id, security headers, panics,
// errors, metrics and the access log.
func (s *Server) observe(c *fiber.Ctx) error {
	started := time.Now()
	s.metrics.inFlight.Inc()
	defer s.metrics.inFlight.Dec()

	stamp(c, identify(c))
	err := s.guard(c)
	if allow := c.GetRespHeader(fiber.HeaderAllow); allow != "" && errors.Is(err, fiber.ErrMethodNotAllowed) {
		c.Set(fiber.HeaderAllow, allow+", OPTIONS")
		if c.Method() == http.MethodOptions {
			c.Status(http.StatusNoContent)
			err = nil
		}
	}
	s.finish(c, err, routeOf(c), started)
	return nil // answered: Fiber's own error handling would answer again
}

// unread answers requests that fasthttp could not read, so that they too have
// the documented body.
func (s *Server) unread(c *fiber.Ctx, err error) error {
	identify(c)
	s.finish(c, err, unknownRoute, time.Now())
	return nil
}

// knownMethods answers methods that Fiber does not know, which it would refuse
// in plain text.
func (s *Server) knownMethods(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(fctx *fasthttp.RequestCtx) {
		if slices.Contains(fiber.DefaultMethods, string(fctx.Method())) {
			next(fctx)
			return
		}
		c := s.app.AcquireCtx(fctx)
		defer s.app.ReleaseCtx(c)
		c.Set(fiber.HeaderAllow, strings.Join(methods, ", "))
		_ = s.unread(c, fiber.ErrMethodNotAllowed) // returns nil always
	}
}

// guard runs the rest of the chain and turns a panic into an error.
func (s *Server) guard(c *fiber.Ctx) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.options.Logger.Error("panic in a handler", zap.String("request_id", requestIDOf(c)),
				zap.Any("panic", r), zap.ByteString("stack", debug.Stack()))
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	if len(c.Request().RequestURI()) > s.options.URILimit {
		return fiber.ErrRequestURITooLong
	}
	return c.Next()
}

// finish writes the answer to an error, if there is one, and records what
// happened.
func (s *Server) finish(c *fiber.Ctx, err error, route string, started time.Time) {
	if err != nil {
		refuse(c, translate(err))
	}
	status, took := c.Response().StatusCode(), time.Since(started)
	method := c.Method()
	if !slices.Contains(methods, method) {
		method = "OTHER"
	}
	s.metrics.observe(method, route, status, took)

	fields := []zap.Field{
		zap.String("request_id", requestIDOf(c)), zap.String("method", method), zap.String("route", route),
		zap.Int("status", status), zap.Duration("duration", took),
	}
	if noted, ok := c.Locals(notesKey{}).([]zap.Field); ok {
		fields = append(fields, noted...)
	}
	if err != nil {
		fields = append(fields, zap.Error(err))
	}
	s.options.Logger.Log(accessLevel(route, status), "request", fields...)
}

// refuse replaces whatever a handler had begun to answer.
func refuse(c *fiber.Ctx, r *refusal) {
	allow := c.GetRespHeader(fiber.HeaderAllow)
	c.Response().Reset()
	id := requestIDOf(c)
	stamp(c, id)
	switch r.status {
	case http.StatusMethodNotAllowed:
		c.Set(fiber.HeaderAllow, allow)
	case http.StatusServiceUnavailable:
		c.Set(fiber.HeaderRetryAfter, retryAfterSeconds)
	}
	_ = reply(c, r.status, r.view(id)) // strings and slices of strings always encode
}

// stamp sets the headers that every answer has.
func stamp(c *fiber.Ctx, requestID string) {
	c.Set(headerRequestID, requestID)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderContentSecurityPolicy, "default-src 'none'; frame-ancestors 'none'")
}

func routeOf(c *fiber.Ctx) string {
	if path := c.Route().Path; path != "/" {
		return path
	}
	return unknownRoute // only observe itself, which stands at "/", has matched
}

// accessLevel keeps probes out of the log and makes failures of ours stand out.
func accessLevel(route string, status int) zapcore.Level {
	switch {
	case route == "/healthz" || route == "/readyz" || route == "/metrics":
		return zap.DebugLevel
	case status == http.StatusServiceUnavailable:
		return zap.WarnLevel
	case status >= http.StatusInternalServerError:
		return zap.ErrorLevel
	default:
		return zap.InfoLevel
	}
}

type notesKey struct{}

// note adds a field to the access log of the request.
func note(c *fiber.Ctx, field zap.Field) {
	noted, _ := c.Locals(notesKey{}).([]zap.Field)
	c.Locals(notesKey{}, append(noted, field))
}
