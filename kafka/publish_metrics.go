package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"dlqmanager/dlq"
)

// PublishMetrics counts the messages that are sent, to Kafka or elsewhere.
type PublishMetrics struct {
	duration prometheus.Histogram
	total    *prometheus.CounterVec
	topics   dlq.TopicLabels
}

// NewPublishMetrics registers the metrics, unless reg is nil. A Publisher has its own; see Publisher.Metrics.
func NewPublishMetrics(reg prometheus.Registerer) *PublishMetrics {
	m := &PublishMetrics{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "dlq_republish_duration_seconds",
			Help:    "Time from handing a message to the publisher until its target acknowledged it.",
			Buckets: []float64{.002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20},
			// A native histogram beside the classic buckets, for Prometheus servers that read native
			// histograms.
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
		}),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_republished_total",
			Help: "Messages sent to their target, a topic or an HTTP endpoint, by result: delivered, held_back when an earlier one of their key failed, " +
				"target_closed when the target was known to refuse, or the category of the error. " +
				"Topics beyond the first 1000 are counted as \"other\".",
		}, []string{"topic", "result"}),
	}
	if reg != nil {
		reg.MustRegister(m.duration, m.total)
	}
	return m
}

// Count counts a message with its target and its error, which is nil for a delivered message.
func (m *PublishMetrics) Count(target string, err error) {
	var result string
	switch {
	case err == nil:
		result = "delivered"
	case errors.Is(err, dlq.ErrTargetClosed):
		result = "target_closed"
	case errors.As(err, new(*dlq.BlockedError)):
		result = "held_back"
	default:
		result = string(dlq.CategoryOf(err))
	}
	m.total.WithLabelValues(m.topics.Of(target), result).Inc()
}

// Observe adds the duration of a delivery. If the trace of ctx is sampled, its id becomes the exemplar of
// the duration's bucket.
func (m *PublishMetrics) Observe(ctx context.Context, took time.Duration) {
	span := trace.SpanContextFromContext(ctx)
	if traced, ok := m.duration.(prometheus.ExemplarObserver); ok && span.IsSampled() {
		traced.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": span.TraceID().String()})
		return
	}
	m.duration.Observe(took.Seconds())
}
