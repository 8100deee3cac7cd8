package kafka

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"dlqmanager/dlq"
)

// traceID is the trace of the last valid traceparent header, as W3C Trace Context defines
// it, or empty.
func traceID(headers []dlq.Header) (id string) {
	for _, header := range headers {
		if !strings.EqualFold(header.Key, "traceparent") || len(header.Value) > maxTraceparent {
			continue
		}
		parent := propagation.MapCarrier{"traceparent": string(header.Value)}
		found := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), parent))
		if found.IsValid() {
			id = found.TraceID().String()
		}
	}
	return id
}

// maxTraceparent is longer than any version of the header.
const maxTraceparent = 512

// maxCorrelationID is the longest value that counts as an id.
const maxCorrelationID = 255

// correlationID is the value of the first header with a correlation id, or empty. Binary values
// are not text, and stay in the headers only.
func correlationID(headers []dlq.Header) string {
	for _, header := range headers {
		if len(header.Value) == 0 || len(header.Value) > maxCorrelationID {
			continue
		}
		if dlq.IsCorrelationHeader(header.Key) && dlq.StorableText(string(header.Value)) == string(header.Value) {
			return string(header.Value)
		}
	}
	return ""
}
