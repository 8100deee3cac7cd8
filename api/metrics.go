package api

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
)

// durationBuckets reach from the time of a read by key to the longest wait for a retry, in seconds.
var durationBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

type httpMetrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	refused  prometheus.Counter
	// unrecorded counts the refused requests that the audit leaves out.
	unrecorded prometheus.Counter
	exports    *prometheus.CounterVec
}

func newHTTPMetrics(registerer prometheus.Registerer) (*httpMetrics, error) {
	m := &httpMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_http_requests_total",
			Help: "Requests answered, by method, route template and status code.",
		}, []string{"method", "route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "dlq_http_request_duration_seconds",
			Help:    "Time from the end of reading a request to the start of writing its answer.",
			Buckets: durationBuckets,
			// The native histogram is for Prometheus servers that ask for it. The classic histogram stays.
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
		}, []string{"method", "route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_http_requests_in_flight",
			Help: "Requests being answered.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dlq_http_connections_refused_total",
			Help: "Connections closed at once because too many were open.",
		}),
		unrecorded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dlq_audit_refusals_unrecorded_total",
			Help: "Refused requests that are not in the audit, because too many senders and routes had some within a minute.",
		}),
		exports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_exports_total",
			Help: "Exports that have ended, by outcome: done, failed, or cancelled by the reader.",
		}, []string{"outcome"}),
	}
	for _, collector := range []prometheus.Collector{m.requests, m.duration, m.inFlight, m.refused, m.unrecorded, m.exports} {
		if err := registerer.Register(collector); err != nil {
			return nil, fmt.Errorf("HTTP metrics: %w", err)
		}
	}
	return m, nil
}

// observe counts an answer. If the trace of ctx is sampled, it becomes the exemplar of the bucket.
func (m *httpMetrics) observe(ctx context.Context, method, route string, status int, took time.Duration) {
	m.requests.WithLabelValues(method, route, strconv.Itoa(status)).Inc()
	duration := m.duration.WithLabelValues(method, route)
	span := trace.SpanContextFromContext(ctx)
	if traced, ok := duration.(prometheus.ExemplarObserver); ok && span.IsSampled() {
		traced.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": span.TraceID().String()})
		return
	}
	duration.Observe(took.Seconds())
}

// metricsHandler serves the metrics of all collectors that work, even if another collector fails.
func metricsHandler(gatherer prometheus.Gatherer, logger *zap.Logger) fiber.Handler {
	return adaptor.HTTPHandler(promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{
		ErrorLog:      zap.NewStdLog(logger),
		ErrorHandling: promhttp.ContinueOnError,
		// Only the OpenMetrics format has exemplars.
		EnableOpenMetrics: true,
	}))
}
