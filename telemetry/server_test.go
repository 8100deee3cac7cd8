package telemetry_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"dlqmanager/dlq"
	"dlqmanager/telemetry"
)

func listen(t *testing.T, metrics http.Handler, checks map[string]telemetry.Check) *telemetry.Server {
	t.Helper()
	server, err := telemetry.Listen("127.0.0.1:0", []string{"worker"}, metrics, http.NotFoundHandler(), checks, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = server.Stop(ctx)
	})
	return server
}

func get(t *testing.T, server *telemetry.Server, path string) (status int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+server.Address()+path, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(data)
}

func TestMetricsAreServed(t *testing.T) {
	t.Parallel()
	registry := telemetry.NewRegistry("dlq-manager", "1")
	server := listen(t, telemetry.Handler(registry, zap.NewNop()), nil)
	status, body := get(t, server, "/metrics")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `dlq_build_info{app="dlq-manager"`)

	status, _ = get(t, server, "/elsewhere")
	require.Equal(t, http.StatusNotFound, status)
}

func TestForeignNamesOfTheWorkerAreRefused(t *testing.T) {
	t.Parallel()
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	server := listen(t, ok, nil)
	for host, status := range map[string]int{
		"worker:9090": http.StatusOK, "Worker": http.StatusOK, "localhost": http.StatusOK, "10.1.2.3:9090": http.StatusOK, "[::1]:9090": http.StatusOK,
		"evil.example:9090": http.StatusForbidden, "worker.evil.example": http.StatusForbidden, "127.0.0.1.evil.example": http.StatusForbidden,
	} {
		for _, path := range []string{"/metrics", "/healthz", "/readyz", "/debug/log-level"} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+server.Address()+path, http.NoBody)
			require.NoError(t, err)
			request.Host = host
			response, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			if status == http.StatusOK && path == "/debug/log-level" { // this server has no such handler
				require.Equal(t, http.StatusNotFound, response.StatusCode)
				continue
			}
			require.Equal(t, status, response.StatusCode, "%s %s", host, path)
			require.Equal(t, status != http.StatusOK, strings.Contains(string(body), "server.allowed_hosts"))
		}
	}
}

func TestReadyzReturnsOKWhileEveryDependencyAnswers(t *testing.T) {
	t.Parallel()
	server := listen(t, http.NotFoundHandler(), map[string]telemetry.Check{"database": well, "temporal": well})
	status, body := get(t, server, "/readyz")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, `{"status":"ok","checks":{"database":"ok","temporal":"ok"}}`+"\n", body)
}

func TestReadyzTellsAnErrorFromATimeoutAndLogsTheReason(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	server := listen(t, http.NotFoundHandler(), map[string]telemetry.Check{
		"fine":  well,
		"talks": func(context.Context) error { return &dlq.NoticeError{Notice: "7 offsets lost"} },
		"gone":  func(context.Context) error { return errRefused },
		"stuck": func(context.Context) error { <-release; return nil },
	})
	status, body := get(t, server, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, `{"status":"unavailable","checks":{"fine":"ok","gone":"away","stuck":"no answer within 3s","talks":"ok; 7 offsets lost"}}`+"\n", body)
	status, body = get(t, server, "/healthz")
	require.Equal(t, http.StatusOK, status, "the process itself is well")
	require.Equal(t, `{"status":"ok"}`+"\n", body)
}

func TestStopWaitsForAnswersInFlight(t *testing.T) {
	t.Parallel()
	begun, finish := make(chan struct{}), make(chan struct{})
	server := listen(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-finish
		_, _ = io.WriteString(w, "done")
	}), nil)
	answered := make(chan string, 1)
	go func() {
		response, err := http.Get("http://" + server.Address() + "/metrics")
		if err != nil {
			answered <- err.Error()
			return
		}
		defer func() { _ = response.Body.Close() }()
		body, _ := io.ReadAll(response.Body)
		answered <- string(body)
	}()
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- server.Stop(context.Background()) }()
	close(finish)
	require.Equal(t, "done", <-answered)
	require.NoError(t, <-stopped)
	require.NoError(t, server.Stop(context.Background()), "stopping twice is harmless")

	_, err := net.Dial("tcp", server.Address())
	require.Error(t, err, "nothing listens any more")
}

func TestStopCancelsRequestsThatOutliveItsContext(t *testing.T) {
	t.Parallel()
	begun, finish := make(chan struct{}), make(chan struct{})
	server := listen(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(begun)
		<-finish
	}), nil)
	failed := make(chan error, 1)
	go func() {
		response, err := http.Get("http://" + server.Address() + "/metrics")
		if err == nil {
			_ = response.Body.Close()
		}
		failed <- err
	}()
	<-begun
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, server.Stop(ctx), context.Canceled)
	require.Error(t, <-failed)
	close(finish)
}

func TestPortInUseIsAnError(t *testing.T) {
	t.Parallel()
	server := listen(t, http.NotFoundHandler(), nil)
	_, err := telemetry.Listen(server.Address(), nil, http.NotFoundHandler(), http.NotFoundHandler(), nil, zap.NewNop())
	require.ErrorContains(t, err, "address already in use")
}
