package api_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"dlqmanager/api"
	"dlqmanager/dlq"
	"dlqmanager/telemetry"
)

func TestRequestIDOfTheCallerIsKeptWhenWellFormed(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, id := range []string{"a", "req_abc123def456", "A.b-c_9", strings.Repeat("x", 128)} {
		require.Equal(t, id, w.call(http.MethodGet, "/healthz", "X-Request-Id: "+id).header.Get("X-Request-Id"))
	}
	seen := map[string]bool{}
	for _, id := range []string{"", "a b", "<script>", "é", strings.Repeat("x", 129), "a,b", "a/b"} {
		got := w.call(http.MethodGet, "/api/v1/dlq/messages/"+someID, "X-Request-Id: "+id).header.Get("X-Request-Id")
		require.Regexp(t, `^req_[0-9a-f]{12}$`, got)
		require.False(t, seen[got])
		seen[got] = true
	}
}

func TestEveryAnswerHasRequestIDAndSecurityHeaders(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/docs/swagger-ui.css", "/api/v1/dlq",
		"/api/v1/dlq/messages/" + someID, "/api/v1/dlq/messages/x", "/nowhere"} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut} {
			_, got := w.send(method, path, nil)
			require.Len(t, got.header.Values("X-Request-Id"), 1, path)
			require.Equal(t, []string{"nosniff"}, got.header.Values("X-Content-Type-Options"), path)
			require.Equal(t, []string{"no-store"}, got.header.Values("Cache-Control"), path)
			require.Len(t, got.header.Values("Content-Security-Policy"), 1, path)
			require.Empty(t, got.header.Get("Server"), path)
		}
	}
}

func TestHeadAnswersAsGetWithoutABody(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/api/v1/dlq", "/api/v1/dlq/orders.dlq.v1"} {
		_, get := w.send(http.MethodGet, path, nil)
		_, head := w.send(http.MethodHead, path, nil)
		require.Equal(t, http.StatusOK, head.status, path)
		require.Empty(t, head.body, path)
		require.Equal(t, get.header.Get("Content-Type"), head.header.Get("Content-Type"), path)
	}
}

func TestUnsupportedMethodsAre405WithAllow(t *testing.T) {
	t.Parallel()
	w := start(t)
	for path, want := range map[string]string{
		"/api/v1/dlq":                               "GET, HEAD, OPTIONS",
		"/api/v1/dlq/messages/" + someID:            "GET, HEAD, DELETE, OPTIONS",
		"/api/v1/dlq/messages/" + someID + "/retry": "POST, OPTIONS",
		"/api/v1/jobs":                              "GET, HEAD, POST, OPTIONS",
		"/api/v1/jobs/" + someID:                    "GET, HEAD, PATCH, OPTIONS",
		"/api/v1/jobs/" + someID + "/pause":         "POST, OPTIONS",
		"/healthz":                                  "GET, HEAD, OPTIONS",
	} {
		_, got := w.send(http.MethodPut, path, nil)
		requireError(t, got, http.StatusMethodNotAllowed, "SYS_DLQ_METHOD_NOT_ALLOWED")
		require.Equal(t, want, got.header.Get("Allow"), path)

		_, options := w.send(http.MethodOptions, path, nil)
		require.Equal(t, http.StatusNoContent, options.status, path)
		require.Equal(t, want, options.header.Get("Allow"), path)
		require.Empty(t, options.body)
	}
	_, got := w.send("BREW", "/healthz", nil)
	requireError(t, got, http.StatusMethodNotAllowed, "SYS_DLQ_METHOD_NOT_ALLOWED")
	require.Equal(t, "GET, HEAD, POST, PATCH, DELETE, OPTIONS", got.header.Get("Allow"))
}

func TestUnknownRoutesAre404(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, path := range []string{"/", "/nowhere", "/api/v1", "/api/v2/dlq", "/API/v1/dlq", "/api/v1/dlq/a/b/c", "/api/v1/jobs/" + someID + "/pause/x"} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions} {
			_, got := w.send(method, path, nil)
			message, _ := requireError(t, got, http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
			require.Equal(t, "no such route", message)
		}
	}
}

func TestUnknownParametersAreRefused(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1)[0]
	for _, call := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/retry"}, {"POST", "/dead"}} {
		got := w.call(call[0], "/api/v1/dlq/messages/"+id.String()+call[1]+"?force=true")
		message, fields := requireError(t, got, http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, []string{"force"}, fields)
		require.Contains(t, message, "force")
	}
	requireError(t, w.call(http.MethodPost, retryAllPath+"?status=DEAD"), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	require.Equal(t, "PENDING", w.status(id))
	require.Zero(t, w.retries.starts())
}

func TestRequestsAreLoggedWithTheirIDs(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1)[0]
	w.call(http.MethodGet, "/api/v1/dlq/messages/"+id.String(), "X-Request-Id: first")
	w.call(http.MethodGet, "/healthz", "X-Request-Id: probe")
	fields := func(requestID string) (map[string]any, string) {
		entries := w.logs.FilterField(zap.String("request_id", requestID)).All()
		require.Len(t, entries, 1)
		return entries[0].ContextMap(), entries[0].Level.String()
	}
	logged, level := fields("first")
	require.Equal(t, "info", level)
	require.Equal(t, "/api/v1/dlq/messages/:id", logged["route"])
	require.Equal(t, "GET", logged["method"])
	require.EqualValues(t, 200, logged["status"])
	require.Equal(t, id.String(), logged["message_id"])
	require.Contains(t, logged, "duration")
	_, level = fields("probe")
	require.Equal(t, "debug", level)
}

func TestRequestsAreMeasuredByRouteAndNotByPath(t *testing.T) {
	t.Parallel()
	w := start(t)
	for range 3 {
		w.call(http.MethodGet, "/api/v1/dlq/messages/"+dlq.NewID().String())
		w.send(http.MethodGet, "/nowhere/"+dlq.NewID().String(), nil)
		w.send("BREW", "/healthz", nil)
		w.send(http.MethodPatch, "/api/v1/jobs/"+dlq.NewID().String(), nil)
	}
	require.NoError(t, testutil.GatherAndCompare(w.metrics, strings.NewReader(`
# HELP dlq_http_requests_total Requests answered, by method, route template and status code.
# TYPE dlq_http_requests_total counter
dlq_http_requests_total{method="GET",route="/api/v1/dlq/messages/:id",status="404"} 3
dlq_http_requests_total{method="GET",route="unknown",status="404"} 3
dlq_http_requests_total{method="OTHER",route="unknown",status="405"} 3
dlq_http_requests_total{method="PATCH",route="/api/v1/jobs/:id",status="400"} 3
`), "dlq_http_requests_total"))
	got := w.call(http.MethodGet, "/metrics").body
	require.Contains(t, got, `dlq_http_request_duration_seconds_count{method="GET",route="/api/v1/dlq/messages/:id"} 3`)
	require.Contains(t, got, "dlq_http_requests_in_flight 1")
	problems, err := testutil.GatherAndLint(w.metrics)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestNewRefusesDuplicateMetricsAndMissingOptions(t *testing.T) {
	t.Parallel()
	w := start(t)
	options := api.Options{Store: w.store, Database: w.store, Retries: w.retries, Topics: newTopics(t), Registerer: w.metrics, Gatherer: w.metrics,
		LogLevel: logLevel(t), Profiles: telemetry.Profiles()}
	_, err := api.New(options)
	require.ErrorContains(t, err, "HTTP metrics")
	for _, without := range []func(*api.Options){
		func(o *api.Options) { o.Store = nil }, func(o *api.Options) { o.Retries = nil }, func(o *api.Options) { o.Topics = nil },
	} {
		broken := options
		without(&broken)
		_, err = api.New(broken)
		require.ErrorContains(t, err, "required")
	}
}

func TestABodyThatIsNotJSONIsRefused(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1)[0]
	_, got := w.send(http.MethodPost, retryPath(id), bytes.NewReader(make([]byte, 1<<19)), "Content-Type: multipart/form-data; boundary=x")
	_, fields := requireError(t, got, http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	require.Equal(t, []string{"Content-Type"}, fields)
	require.Equal(t, "PENDING", w.status(id))
}
