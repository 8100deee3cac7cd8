package api_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
)

const levelPath = "/debug/log-level"

func TestTheLogLevelChangesAndComesBack(t *testing.T) {
	t.Parallel()
	level := logLevel(t)
	w := startWithTokens(t, func(o *api.Options) { o.LogLevel = level })
	got := w.call(http.MethodGet, levelPath, bearer("admin"))
	require.JSONEq(t, `{"level":"info","configured":"info","until":null}`, got.body)

	got = w.json(http.MethodPut, levelPath, `{"level":"debug","reason":"a lane hangs"}`, bearer("admin"))
	require.JSONEq(t, `{"level":"debug","configured":"info","until":null}`, got.body)

	got = w.json(http.MethodPut, levelPath, `{"level":"error","for":"100ms"}`, bearer("admin"))
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Eventually(t, func() bool {
		current, _, _ := level.Level()
		return current == "info"
	}, 10*time.Second, 5*time.Millisecond)

	changed := w.logs.FilterMessage("log level changed").All()
	require.Len(t, changed, 2)
	require.Equal(t, "admin", changed[0].ContextMap()["actor"])
	audit := w.call(http.MethodGet, "/api/v1/audit?action=dlq:process:update", bearer("admin"))
	rows := audit.field(t, "operations").([]any)
	require.Len(t, rows, 2)
	first := rows[1].(map[string]any)
	require.Equal(t, []any{"admin", "process", "done", "a lane hangs", map[string]any{"level": "debug", "for": "0s"}},
		[]any{first["subject"], first["target"], first["outcome"], first["reason"], first["detail"]})
}

// This holds for pages with a token, and while no token is needed.
func TestForeignWebPagesCannotChangeTheLogLevel(t *testing.T) {
	t.Parallel()
	for _, w := range []*world{start(t), startWithTokens(t)} {
		for _, header := range []string{"Origin: https://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site"} {
			got := w.json(http.MethodPut, levelPath, `{"level":"debug"}`, bearer("admin"), header)
			requireError(t, got, http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
		}
		got := w.json(http.MethodPut, levelPath, `{"level":"debug"}`, bearer("admin"), "Origin: http://"+w.address)
		require.Equal(t, http.StatusOK, got.status, got.body)
	}
}

// The log is needed most in an outage of the database.
func TestTheLogLevelChangesWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t, wrapped(func(s Store) Store { return unrecorded{s} }))
	got := w.json(http.MethodPut, levelPath, `{"level":"debug"}`, bearer("admin"))
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, 1, w.logs.FilterMessage("cannot record the change of the log level").Len())
}

func TestAWrongLogLevelIsRefused(t *testing.T) {
	t.Parallel()
	for body, field := range map[string]string{
		`{}`:                                "level",
		`{"level":"loud"}`:                  "level",
		`{"level":null}`:                    "level",
		`{"level":"debug","for":"25h"}`:     "for",
		`{"level":"debug","for":"-1m"}`:     "for",
		`{"level":"debug","for":10}`:        "for",
		`{"level":"debug","forever":"yes"}`: "forever",
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			level := logLevel(t)
			w := startWithTokens(t, func(o *api.Options) { o.LogLevel = level })
			_, details := requireError(t, w.json(http.MethodPut, levelPath, body, bearer("admin")), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
			require.Contains(t, details, field)
			current, _, _ := level.Level()
			require.Equal(t, "info", current)
		})
	}
}

func TestProfilesAreServed(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	for _, name := range []string{"heap", "goroutine", "profile?seconds=1", "trace?seconds=1"} {
		got := w.call(http.MethodGet, "/debug/pprof/"+name, bearer("admin"))
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.NotEmpty(t, got.body)
	}
	got := w.call(http.MethodGet, "/debug/pprof/heap", bearer("admin"))
	unpacked, err := gzip.NewReader(bytes.NewReader([]byte(got.body)))
	require.NoError(t, err, "go tool pprof reads this")
	_, err = io.Copy(io.Discard, unpacked)
	require.NoError(t, err)
}

func TestAnUnknownProfileIsRefused(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	for _, name := range []string{"cmdline", "symbol", "nothing", "..%2f..%2fmetrics"} {
		requireError(t, w.call(http.MethodGet, "/debug/pprof/"+name, bearer("admin")), http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
	}
	for _, seconds := range []string{"0", "121", "-1", "many", "1e3"} {
		requireError(t, w.call(http.MethodGet, "/debug/pprof/profile?seconds="+seconds, bearer("admin")), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	}
}
