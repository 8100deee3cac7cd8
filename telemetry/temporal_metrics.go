package telemetry

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.temporal.io/sdk/client"
	temporalotel "go.temporal.io/sdk/contrib/opentelemetry"
	"go.uber.org/zap"
)

// temporalPrefix is the prefix of every metric of the SDK, and of metrics that workflows and activities add.
const temporalPrefix = "temporal_"

// maxTemporalSeries limits the series of a metric. Further series are added up in one series with the label
// otel_metric_overflow.
const maxTemporalSeries = 1000

// temporalBuckets are in seconds. OpenTelemetry's default buckets are in milliseconds, so every latency would be in the first
// bucket.
var temporalBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}

// temporalLabels are the tags of the SDK that have few values. Other tags, such as a worker's identity, are dropped, and the
// series that then have the same labels are added up.
var temporalLabels = attribute.NewAllowKeysFilter(
	"namespace", "client_name", "task_queue", "workflow_type", "activity_type", "operation",
	"status_code", "worker_type", "poller_type", "failure_reason", "cause", "request_type",
	"nexus_service", "nexus_operation",
)

// NewTemporalMetrics returns the handler for client.Options. The handler exports the SDK's metrics on the registerer as
// temporal_…, with durations in seconds. The names of counters end in _total. Call stop after the worker has stopped: it ends
// the collection. A registerer can have one handler only, which all clients of the process share.
func NewTemporalMetrics(registerer prometheus.Registerer, logger *zap.Logger) (handler client.MetricsHandler, stop func(context.Context) error, err error) {
	exporter, err := otelprometheus.New(
		otelprometheus.WithRegisterer(registerer),
		otelprometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes),
		otelprometheus.WithoutScopeInfo(),
		otelprometheus.WithoutTargetInfo(),
	)
	if err != nil {
		return nil, nil, fmt.Errorf("temporal metrics: %w", err)
	}
	provider := metric.NewMeterProvider(
		metric.WithReader(exporter),
		metric.WithCardinalityLimit(maxTemporalSeries),
		metric.WithView(temporalView),
	)
	handler = temporalotel.NewMetricsHandler(temporalotel.MetricsHandlerOptions{
		Meter:                provider.Meter("temporal-sdk-go"),
		UseMonotonicCounters: true,
		OnError:              func(err error) { logger.Warn("temporal metric", zap.Error(err)) },
	})
	return handler, provider.Shutdown, nil
}

// temporalView chooses the name, labels and buckets of every instrument.
func temporalView(instrument metric.Instrument) (metric.Stream, bool) {
	stream := metric.Stream{
		Name:            instrument.Name,
		Description:     instrument.Description,
		Unit:            instrument.Unit,
		AttributeFilter: temporalLabels,
	}
	if !strings.HasPrefix(stream.Name, temporalPrefix) {
		stream.Name = temporalPrefix + stream.Name
	}
	if instrument.Kind == metric.InstrumentKindHistogram {
		stream.Aggregation = metric.AggregationExplicitBucketHistogram{Boundaries: temporalBuckets, NoMinMax: true}
	}
	return stream, true
}
