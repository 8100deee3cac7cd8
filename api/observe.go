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
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// unknownRoute is the route label of requests that match no route. Callers choose paths, so a metric must not have a label
// value for each path.
const unknownRoute = "unknown"

// observe wraps every routed request with request id, security headers, recovery from
// panics, error bodies, metrics and the access log.
func (s *Server) observe(c *fiber.Ctx) error {
	started := time.Now()
	s.metrics.inFlight.Inc()
	defer s.metrics.inFlight.Dec()

	s.assignClient(c)
	s.setCommonHeaders(c, assignRequestID(c))
	span := s.startSpan(c)
	err := s.recoverPanic(c)
	if allow := c.GetRespHeader(fiber.HeaderAllow); allow != "" && errors.Is(err, fiber.ErrMethodNotAllowed) {
		c.Set(fiber.HeaderAllow, allow+", OPTIONS")
		if c.Method() == http.MethodOptions {
			answerOptions(c, allow)
			err = nil
		}
	}
	s.finish(c, err, routeOf(c), started)
	endSpan(c, span, err)
	return nil // the request is answered; Fiber would answer a returned error again
}

// answerUnreadable answers a request that fasthttp could not read. The answer has the documented error body. The log has the
// text of the answer and not the error, since the error may quote a token.
func (s *Server) answerUnreadable(c *fiber.Ctx, err error) error {
	assignRequestID(c)
	s.finish(c, translate(err), unknownRoute, time.Now())
	return nil
}

// rejectUnroutable answers methods that Fiber does not know, since Fiber itself would answer in plain text. It closes the
// connection of an ambiguous request, since the next bytes may be the rest of that request.
func (s *Server) rejectUnroutable(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(fctx *fasthttp.RequestCtx) {
		ambiguous := isAmbiguous(&fctx.Request.Header)
		if !ambiguous && slices.Contains(fiber.DefaultMethods, string(fctx.Method())) {
			next(fctx)
			return
		}
		c := s.app.AcquireCtx(fctx)
		defer s.app.ReleaseCtx(c)
		if ambiguous {
			_ = s.answerUnreadable(c, fiber.ErrBadRequest) // always nil
			fctx.SetConnectionClose()
			return
		}
		c.Set(fiber.HeaderAllow, strings.Join(methods, ", "))
		_ = s.answerUnreadable(c, fiber.ErrMethodNotAllowed) // always nil
	}
}

// recoverPanic runs the rest of the chain and turns a panic into an error.
func (s *Server) recoverPanic(c *fiber.Ctx) (err error) {
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

// finish writes the answer to an error, if there is one, and records metrics and the
// access log.
func (s *Server) finish(c *fiber.Ctx, err error, route string, started time.Time) {
	if err != nil {
		s.writeError(c, translate(err))
	}
	status, took := c.Response().StatusCode(), time.Since(started)
	method := c.Method()
	if !slices.Contains(methods, method) {
		method = "OTHER"
	}
	s.metrics.observe(c.UserContext(), method, route, status, took)

	fields := []zap.Field{
		zap.String("request_id", requestIDOf(c)), zap.String("method", method), zap.String("route", route),
		zap.Int("status", status), zap.Duration("duration", took),
	}
	if span := trace.SpanContextFromContext(c.UserContext()); span.IsValid() {
		fields = append(fields, zap.Stringer("trace_id", span.TraceID()))
	}
	if extra, ok := c.Locals(logFieldsKey{}).([]zap.Field); ok {
		fields = append(fields, extra...)
	}
	if err != nil {
		fields = append(fields, zap.Error(err))
	}
	s.options.Logger.Log(accessLevel(route, status), "request", fields...)
}

// writeError replaces the whole answer that a handler has written.
func (s *Server) writeError(c *fiber.Ctx, r *apiError) {
	allow := c.GetRespHeader(fiber.HeaderAllow)
	c.Response().Reset()
	id := requestIDOf(c)
	s.setCommonHeaders(c, id)
	switch r.status {
	case http.StatusMethodNotAllowed:
		c.Set(fiber.HeaderAllow, allow)
	case http.StatusServiceUnavailable:
		c.Set(fiber.HeaderRetryAfter, retryAfterSeconds)
	case http.StatusTooManyRequests:
		c.Set(fiber.HeaderRetryAfter, r.retryAfter)
	case http.StatusUnauthorized:
		c.Set(fiber.HeaderWWWAuthenticate, s.challenge(c))
	}
	_ = reply(c, r.status, r.view(id)) // strings always encode
}

func (s *Server) setCommonHeaders(c *fiber.Ctx, requestID string) {
	c.Set(headerRequestID, requestID)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderContentSecurityPolicy, "default-src 'none'; frame-ancestors 'none'")
	c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	if s.options.ServesTLS {
		c.Set(fiber.HeaderStrictTransportSecurity, "max-age=31536000") // a year
	}
	s.allowOrigin(c)
}

func routeOf(c *fiber.Ctx) string {
	if overview, ok := c.Locals(overviewKey{}).(string); ok {
		return overview
	}
	if path := c.Route().Path; path != "/" {
		return path
	}
	return unknownRoute // only the middleware observe, at "/", matches the path
}

// accessLevel is debug for probes and scrapes, warn or error for server errors, and info for other requests.
func accessLevel(route string, status int) zapcore.Level {
	switch {
	case route == "/healthz" || route == "/readyz" || route == "/metrics":
		return zap.DebugLevel
	case status == http.StatusServiceUnavailable, status == http.StatusNotImplemented:
		return zap.WarnLevel
	case status >= http.StatusInternalServerError:
		return zap.ErrorLevel
	default:
		return zap.InfoLevel
	}
}

type logFieldsKey struct{}

func addLogField(c *fiber.Ctx, field zap.Field) {
	extra, _ := c.Locals(logFieldsKey{}).([]zap.Field)
	c.Locals(logFieldsKey{}, append(extra, field))
}
