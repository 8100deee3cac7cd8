package api_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"dlqmanager/api"
	"dlqmanager/dlq"
	"dlqmanager/store/memory"
	"dlqmanager/telemetry"
)

func ready(results map[string]error) func(*api.Options) {
	return func(o *api.Options) { o.Ready = func() map[string]error { return results } }
}

func TestHealthzReturnsOK(t *testing.T) {
	t.Parallel()
	got := start(t).call(http.MethodGet, "/healthz")
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, `{"status":"ok"}`, got.body)
}

func TestReadyzReturnsOK(t *testing.T) {
	t.Parallel()
	w := start(t, ready(map[string]error{"database": nil, "kafka": nil, "temporal": nil}))
	got := w.call(http.MethodGet, "/readyz")
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, `{"status":"ok","checks":{"database":"ok","kafka":"ok","temporal":"ok"}}`, got.body)
}

func TestReadyzShowsTheNoticeOfADependencyThatWorks(t *testing.T) {
	t.Parallel()
	got := start(t, ready(map[string]error{"ingest": &dlq.NoticeError{Notice: "7 offsets lost"}})).call(http.MethodGet, "/readyz")
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, `{"status":"ok","checks":{"ingest":"ok; 7 offsets lost"}}`, got.body)
}

func TestReadyzReturnsOKWithoutAnythingToCheck(t *testing.T) {
	t.Parallel()
	require.Equal(t, `{"status":"ok","checks":{}}`, start(t).call(http.MethodGet, "/readyz").body)
}

func TestReadyzNamesUnavailableDependenciesWithoutTheCause(t *testing.T) {
	t.Parallel()
	w := start(t, ready(map[string]error{
		"database": nil, "kafka": errors.New("dial 10.1.2.3 as admin: refused"), "temporal": errors.New("no answer within 2s"),
	}))
	got := w.call(http.MethodGet, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Equal(t, "5", got.header.Get("Retry-After"))
	require.Equal(t, `{"error":{"code":"SYS_DLQ_UNAVAILABLE","message":"unavailable: kafka, temporal","request_id":"`+
		got.header.Get("X-Request-Id")+`","details":[{"field":"kafka","message":"unavailable"},{"field":"temporal","message":"unavailable"}]},`+
		`"status":"unavailable","checks":{"database":"ok","kafka":"away","temporal":"away"}}`, got.body)
}

func TestReadyzIs503WhileDrainingAndTheRestGoesOn(t *testing.T) {
	t.Parallel()
	w := start(t, ready(map[string]error{"database": nil}))
	w.server.Drain()
	got := w.call(http.MethodGet, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Equal(t, "draining", got.field(t, "status"))
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/healthz").status)
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/api/v1/dlq").status)
}

func TestShutdownAnswersRequestsInFlight(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.retries.hold()
	id := w.add(1)[0]
	answered := make(chan response, 1)
	go func() {
		_, got := w.send(http.MethodPost, "/api/v1/dlq/messages/"+id.String()+"/retry", nil)
		answered <- got
	}()
	require.Eventually(t, func() bool { return w.status(id) == "RETRYING" }, 20*time.Second, 5*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second) // shorter than the retry would wait
	defer cancel()
	require.NoError(t, w.server.Shutdown(ctx))
	got := <-answered
	require.Equal(t, http.StatusAccepted, got.status, got.body)
	require.Equal(t, "RETRYING", got.field(t, "status"))
}

func TestShutdownEndsThoughAClientKeepsItsConnectionBusy(t *testing.T) {
	t.Parallel()
	w := start(t)
	busy, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			got, err := w.client.Get("http://" + w.address + "/healthz")
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, got.Body)
			_ = got.Body.Close()
			if n == 10 {
				close(busy)
			}
		}
	}()
	<-busy
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	require.NoError(t, w.server.Shutdown(ctx))
	<-ended
}

func TestShutdownEndsAServerThatIsJustStarting(t *testing.T) {
	t.Parallel()
	for range 50 {
		server, err := api.New(api.Options{Store: memory.New(newTopics(t)), Retries: newRetries(t, nil), Topics: newTopics(t),
			LogLevel: logLevel(t), Profiles: telemetry.Profiles(), Logger: zap.NewNop(), Registerer: prometheus.NewRegistry()})
		require.NoError(t, err)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		require.NoError(t, server.Shutdown(t.Context()))
		select {
		case err := <-served:
			require.NoError(t, err)
		case <-time.After(10 * time.Second):
			require.Fail(t, "Serve did not return")
		}
	}
}
