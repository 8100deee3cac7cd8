package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"dlqmanager/telemetry"
)

func level(t *testing.T, text string) *telemetry.LogLevel {
	t.Helper()
	l, err := telemetry.NewLogLevel(text)
	require.NoError(t, err)
	return l
}

// ask sends a request to the debug handler as a client of this host.
func ask(handler http.Handler, method, path, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, "http://localhost:9090"+path, strings.NewReader(body))
	request.RemoteAddr = "127.0.0.1:40000"
	for _, c := range change {
		c(request)
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	return answer
}

func TestTheWorkersLogLevelChanges(t *testing.T) {
	t.Parallel()
	l := level(t, "info")
	core, logs := observer.New(zap.InfoLevel)
	handler := telemetry.NewDebugHandler(l, zap.New(core))
	require.JSONEq(t, `{"level":"info","configured":"info"}`, ask(handler, http.MethodGet, "/debug/log-level", "").Body.String())
	answer := ask(handler, http.MethodPut, "/debug/log-level", `{"level":"debug","for":"1h"}`)
	require.Equal(t, http.StatusOK, answer.Code, answer.Body)
	require.Contains(t, answer.Body.String(), `"until"`)
	require.Equal(t, 1, logs.FilterMessage("log level changed").Len())
	for _, body := range []string{``, `{}`, `{"level":"loud"}`, `{"level":"warn","for":"soon"}`, `{"level":"warn","for":"-1s"}`, `{"level":"warn","for":"25h"}`, `{"level":"warn","period":"1h"}`} {
		require.Equal(t, http.StatusBadRequest, ask(handler, http.MethodPut, "/debug/log-level", body).Code, body)
	}
	current, configured, _ := l.Level()
	require.Equal(t, []string{"debug", "info"}, []string{current, configured})
}

func TestAProfileOfTheWorkerEnds(t *testing.T) {
	t.Parallel()
	handler := telemetry.NewDebugHandler(level(t, "info"), zap.NewNop())
	for _, seconds := range []string{"121", "0", "x"} {
		require.Equal(t, http.StatusBadRequest, ask(handler, http.MethodGet, "/debug/pprof/profile?seconds="+seconds, "").Code)
	}
}

// The worker's port has no authentication. A web page in a browser on this host must not reach the port under another host
// name.
func TestDebugIsForClientsOfTheHostOnly(t *testing.T) {
	t.Parallel()
	handler := telemetry.NewDebugHandler(level(t, "info"), zap.NewNop())
	from := func(address string) func(*http.Request) {
		return func(r *http.Request) { r.RemoteAddr = address }
	}
	to := func(host string) func(*http.Request) { return func(r *http.Request) { r.Host = host } }
	for _, path := range []string{"/debug/log-level", "/debug/pprof/heap"} {
		require.Equal(t, http.StatusOK, ask(handler, http.MethodGet, path, "", from("[::1]:9")).Code)
		require.Equal(t, http.StatusOK, ask(handler, http.MethodGet, path, "", to("127.0.0.1:9090")).Code)
		for _, refused := range []func(*http.Request){from("10.0.0.1:9"), from("127.0.0.6:9"), from("[fe80::1]:9"), to("attacker.example"), to("127.0.0.1.example")} {
			require.Equal(t, http.StatusForbidden, ask(handler, http.MethodGet, path, "", refused).Code)
		}
	}
}

func TestForeignWebPagesCannotChangeTheWorkersLogLevel(t *testing.T) {
	t.Parallel()
	l := level(t, "info")
	handler := telemetry.NewDebugHandler(l, zap.NewNop())
	with := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for _, foreign := range []func(*http.Request){
		with("Origin", "https://evil.example"), with("Origin", "http://localhost:3000"), with("Origin", "null"),
		with("Sec-Fetch-Site", "cross-site"), with("Sec-Fetch-Site", "same-site"),
	} {
		require.Equal(t, http.StatusForbidden, ask(handler, http.MethodPut, "/debug/log-level", `{"level":"debug"}`, foreign).Code)
	}
	current, _, _ := l.Level()
	require.Equal(t, "info", current)
	require.Equal(t, http.StatusOK, ask(handler, http.MethodPut, "/debug/log-level", `{"level":"debug"}`, with("Origin", "http://localhost:9090")).Code)
}

func TestTheConfiguredLevelReturns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := level(t, "warn")
		requireLevel := func(want string) {
			t.Helper()
			current, _, _ := l.Level()
			require.Equal(t, want, current)
		}
		require.NoError(t, l.Set("debug", time.Minute))
		time.Sleep(59 * time.Second)
		requireLevel("debug")
		time.Sleep(2 * time.Second)
		requireLevel("warn")

		require.NoError(t, l.Set("debug", time.Minute))
		require.NoError(t, l.Set("error", 0))
		time.Sleep(time.Hour)
		requireLevel("error")
		require.Error(t, l.Set("loud", 0))
		requireLevel("error")
	})
}

func TestALoggerFollowsItsLevel(t *testing.T) {
	t.Parallel()
	l := level(t, "warn")
	lines := logged(t, telemetry.LogOptions{Level: l}, func(log *zap.Logger) {
		named := log.Named("kafka").With(zap.String("topic", "t"))
		named.Info("before")
		require.NoError(t, l.Set("debug", 0))
		named.Debug("after")
	})
	require.Len(t, lines, 1)
	require.Equal(t, "after", lines[0]["msg"])
}
