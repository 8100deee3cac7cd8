package kafka

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"dlqmanager/dlq"
)

func TestRepublishedTopicsHaveABoundedNumberOfLabels(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	m := NewPublishMetrics(registry)
	for i := range 1500 {
		m.Count(fmt.Sprint("topic-", i), nil)
	}
	m.Count("topic-7", nil) // counted by its name, because the topic is known
	m.Count("topic-1400", &dlq.DeliveryError{Category: dlq.CategoryAuth, Err: errors.New("refused")})
	got := map[string]float64{}
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() != "dlq_republished_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			got[labels["topic"]+" "+labels["result"]] = metric.GetCounter().GetValue()
		}
	}
	require.Len(t, got, 1002)
	require.InDelta(t, 2, got["topic-7 delivered"], 0)
	require.InDelta(t, 500, got["other delivered"], 0)
	require.InDelta(t, 1, got["other auth"], 0)
}

func TestDeliveriesOfSampledTracesAreExemplars(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	m := NewPublishMetrics(registry)
	span := func(flags trace.TraceFlags) context.Context {
		return trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: flags,
		}))
	}
	m.Observe(span(trace.FlagsSampled), 15*time.Millisecond)
	m.Observe(span(0), 1500*time.Millisecond)
	families, err := registry.Gather()
	require.NoError(t, err)
	histogram := families[0].GetMetric()[0].GetHistogram()
	require.NotEmpty(t, histogram.GetPositiveSpan(), "it is a native histogram too")
	exemplars := map[float64]string{}
	for _, bucket := range histogram.GetBucket() {
		if e := bucket.GetExemplar(); e != nil {
			exemplars[bucket.GetUpperBound()] = e.GetLabel()[0].GetValue()
		}
	}
	require.Equal(t, map[float64]string{.02: "01000000000000000000000000000000"}, exemplars)
}
