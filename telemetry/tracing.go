package telemetry

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	temporalotel "go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc/credentials"
)

// TraceOptions tell which traces are kept, and where they are sent.
type TraceOptions struct {
	// Endpoint is the http or https URL of an OpenTelemetry collector.
	Endpoint string
	// Protocol is grpc or http/protobuf.
	Protocol string
	// TLS is the configuration for an https endpoint.
	TLS *tls.Config
	// SampleRatio is the share of traces that are kept, for traces that begin in this program.
	SampleRatio float64
	// Service, Version and Process name the program.
	Service, Version, Process string
}

// NewTracerProvider returns a provider that exports spans in batches. It does not connect yet. While the collector is
// unavailable, spans are dropped, and a line in the log says so once a minute. The environment variables of OTLP, such as
// OTEL_EXPORTER_OTLP_HEADERS, apply in addition to the options.
func NewTracerProvider(o TraceOptions, log *zap.Logger) (*sdktrace.TracerProvider, error) {
	target, err := url.Parse(o.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	isPlain := target.Scheme == "http"
	var client otlptrace.Client
	if o.Protocol == "grpc" {
		options := []otlptracegrpc.Option{otlptracegrpc.WithEndpoint(target.Host), otlptracegrpc.WithTimeout(exportTimeout)}
		if isPlain {
			options = append(options, otlptracegrpc.WithInsecure())
		} else {
			options = append(options, otlptracegrpc.WithTLSCredentials(credentials.NewTLS(o.TLS)))
		}
		client = otlptracegrpc.NewClient(options...)
	} else {
		if target.Path == "" || target.Path == "/" {
			target.Path = "/v1/traces"
		}
		options := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(target.String()), otlptracehttp.WithTimeout(exportTimeout)}
		if !isPlain {
			options = append(options, otlptracehttp.WithTLSClientConfig(o.TLS))
		}
		client = otlptracehttp.NewClient(options...)
	}
	exporter, err := otlptrace.New(context.Background(), client)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	seldom := log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Minute, 1, 0)
	}))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { seldom.Warn("spans were not exported", zap.Error(err)) }))
	return sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(o.SampleRatio))),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", o.Service), attribute.String("service.version", o.Version),
			attribute.String("dlq.process", o.Process))),
	), nil
}

const exportTimeout = 5 * time.Second

// NewTemporalTracing continues traces in workflows and activities.
func NewTemporalTracing(provider trace.TracerProvider) (interceptor.Interceptor, error) {
	return temporalotel.NewTracingInterceptor(temporalotel.TracerOptions{
		Tracer: provider.Tracer("dlqmanager/workflows"), TextMapPropagator: propagation.TraceContext{},
	})
}
