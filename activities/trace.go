package activities

import (
	"context"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/activity"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// logger adds the workflow and the trace of an activity to a log.
func logger(ctx context.Context, log *zap.Logger) *zap.Logger {
	if activity.IsActivity(ctx) {
		log = log.With(zap.String("workflow_id", activity.GetInfo(ctx).WorkflowExecution.ID))
	}
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		log = log.With(zap.Stringer("trace_id", span.TraceID()))
	}
	return log
}

// maxLinks limits the dead letters that the span of a page is linked to.
const maxLinks = 5

// traceparentHeader is the header of W3C Trace Context.
const traceparentHeader = "traceparent"

// startSpan starts a span below the span of ctx, and records nothing if ctx has no recorded span.
func startSpan(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	return tracerOf(ctx).Start(ctx, name, options...) //nolint:spancheck // the caller ends it
}

func tracerOf(ctx context.Context) trace.Tracer {
	return trace.SpanFromContext(ctx).TracerProvider().Tracer("dlqmanager/activities")
}

// endSpan ends a span with the error, if any.
func endSpan(span trace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// startPublish starts the span of a message that is sent, linked to the trace in which the message was
// produced. If the message's trace is sampled, it gets a span too, and the record's traceparent header then names this
// span. Otherwise the record keeps its headers.
func startPublish(ctx context.Context, e *dlq.Envelope) (end func(error)) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return func(error) {}
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		attribute.String("messaging.destination.name", e.Target()), attribute.Stringer("dlq.message_id", e.ID))}
	message := originalTrace(e)
	link := trace.Link{SpanContext: message}
	if !message.HasSpanID() && message.HasTraceID() { // the SDK drops such a link unless it has an attribute
		link.Attributes = []attribute.KeyValue{attribute.Stringer("dlq.trace_id", message.TraceID())}
	}
	ctx, publish := startSpan(ctx, "publish", append(slices.Clip(options), trace.WithLinks(link))...)
	if !message.IsSampled() {
		return func(err error) { endSpan(publish, err) }
	}
	options = append(options, trace.WithLinks(trace.LinkFromContext(ctx)))
	ctx, republish := tracerOf(ctx).Start(trace.ContextWithRemoteSpanContext(ctx, message), "republish", options...) //nolint:spancheck // see below
	carryOn(ctx, e)
	return func(err error) { //nolint:spancheck // the caller calls it
		endSpan(republish, err)
		endSpan(publish, err)
	}
}

// originalTrace is the trace in which the message was produced, from the last valid traceparent header, or else from the
// trace id in the metadata of the message's event.
func originalTrace(e *dlq.Envelope) (found trace.SpanContext) {
	for i := range e.Record.Headers {
		if h := &e.Record.Headers[i]; strings.EqualFold(h.Key, traceparentHeader) {
			carrier := propagation.MapCarrier{traceparentHeader: string(h.Value)}
			if read := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier)); read.IsValid() {
				found = read
			}
		}
	}
	if id, err := trace.TraceIDFromHex(e.TraceID); !found.IsValid() && err == nil {
		return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, Remote: true})
	}
	return found
}

// carryOn replaces the traceparent header of the record. It changes a copy of the headers, because the headers may be
// shared.
func carryOn(ctx context.Context, e *dlq.Envelope) {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	e.Record.Headers = slices.Clone(e.Record.Headers)
	for i := range e.Record.Headers {
		if h := &e.Record.Headers[i]; strings.EqualFold(h.Key, traceparentHeader) {
			h.Value = []byte(carrier[traceparentHeader])
		}
	}
}

// linkMessages links the span of a page to the traces of a few of its messages.
func linkMessages(span trace.Span, page []dlq.PageEnvelope) {
	if !span.IsRecording() {
		return
	}
	links := 0
	for i := 0; i < len(page) && links < maxLinks; i++ {
		if message := originalTrace(&page[i].Envelope); message.IsValid() {
			span.AddLink(trace.Link{SpanContext: message, Attributes: []attribute.KeyValue{attribute.Stringer("dlq.message_id", page[i].ID)}})
			links++
		}
	}
}
