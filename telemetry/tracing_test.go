package telemetry_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"dlqmanager/internal/certtest"
	"dlqmanager/telemetry"
)

// collector answers OTLP over HTTPS, with a certificate of the authority.
func collector(t *testing.T, authority *certtest.Authority, status int) (address string, requests *atomic.Int64) {
	t.Helper()
	requests = &atomic.Int64{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(status)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{authority.Issue(t, "collector")}}
	server.Config.ErrorLog = zap.NewStdLog(zap.NewNop())
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, requests
}

// export sends a span, and returns the error of the export.
func export(t *testing.T, address string, trusted *certtest.Authority) error {
	t.Helper()
	provider, err := telemetry.NewTracerProvider(telemetry.TraceOptions{
		Endpoint: address, Protocol: "http/protobuf", SampleRatio: 1, TLS: &tls.Config{RootCAs: trusted.Pool()},
	}, zap.NewNop())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	t.Cleanup(func() { _ = provider.Shutdown(ctx) })
	_, span := provider.Tracer("test").Start(t.Context(), "span")
	span.End()
	return provider.ForceFlush(ctx)
}

func TestTracesGoToACollectorThatTheAuthorityVouchesFor(t *testing.T) {
	t.Parallel()
	authority := certtest.NewAuthority(t)
	address, requests := collector(t, authority, http.StatusOK)
	require.NoError(t, export(t, address, authority))
	require.EqualValues(t, 1, requests.Load())
}

func TestTracesDoNotGoToACollectorOfAnotherAuthority(t *testing.T) {
	t.Parallel()
	address, requests := collector(t, certtest.NewAuthority(t), http.StatusOK)
	require.ErrorContains(t, export(t, address, certtest.NewAuthority(t)), "certificate")
	require.Zero(t, requests.Load())
}

// If a collector refuses everything, an export ends with an error within its time limit.
func TestACollectorThatIsOverloadedIsAnErrorOfTheExport(t *testing.T) {
	t.Parallel()
	authority := certtest.NewAuthority(t)
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusBadRequest} {
		address, requests := collector(t, authority, status)
		require.Error(t, export(t, address, authority), status)
		require.Positive(t, requests.Load())
	}
}

// Spans are dropped while the queue is full. The caller never waits.
func TestSpansNeverWaitForTheCollector(t *testing.T) {
	t.Parallel()
	authority := certtest.NewAuthority(t)
	held := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-held }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(held) })
	provider, err := telemetry.NewTracerProvider(telemetry.TraceOptions{
		Endpoint: server.URL, Protocol: "http/protobuf", SampleRatio: 1, TLS: &tls.Config{RootCAs: authority.Pool()},
	}, zap.NewNop())
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 10_000 { // more than the 2,048 spans of the queue
			_, span := provider.Tracer("test").Start(context.Background(), "span")
			span.End()
		}
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("a span waits for the collector")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_ = provider.Shutdown(ctx)
}
