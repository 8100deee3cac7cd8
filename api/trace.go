package api

import (
	"github.com/gofiber/fiber/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// startSpan starts the span of a request, as a child of the span in its traceparent.
func (s *Server) startSpan(c *fiber.Ctx) trace.Span {
	if s.options.Tracing == nil {
		return trace.SpanFromContext(c.UserContext()) // a span that does nothing
	}
	carrier := propagation.MapCarrier{"traceparent": c.Get("traceparent"), "tracestate": c.Get("tracestate")}
	ctx := propagation.TraceContext{}.Extract(c.UserContext(), carrier)
	//nolint:spancheck // the caller ends it
	ctx, span := s.options.Tracing.Tracer("dlqmanager/api").Start(ctx, c.Method(), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("http.request.method", c.Method()), attribute.String("dlq.request_id", requestIDOf(c))))
	c.SetUserContext(ctx)
	return span //nolint:spancheck // the caller ends it
}

// endSpan ends the span of a request. It sets the route, which is unknown before.
func endSpan(c *fiber.Ctx, span trace.Span, err error) {
	if span.IsRecording() {
		route, status := routeOf(c), c.Response().StatusCode()
		span.SetName(c.Method() + " " + route)
		span.SetAttributes(attribute.String("http.route", route), attribute.Int("http.response.status_code", status))
		if err != nil && status >= fiber.StatusInternalServerError {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
	}
	span.End()
}
