package api

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"dlqmanager/dlq"
	"dlqmanager/store/memory"
	"dlqmanager/telemetry"
)

// No route may be missing in the table, or need no permission by mistake.
func TestEveryRouteIsInTheTableAndAlmostAllNeedAPermission(t *testing.T) {
	t.Parallel()
	topics, err := dlq.NewTopics(dlq.DefaultTopicPatterns, nil)
	require.NoError(t, err)
	s, err := New(Options{Store: memory.New(topics), Retries: struct{ Retries }{}, Topics: topics,
		LogLevel: &telemetry.LogLevel{}, Profiles: telemetry.Profiles(), Logger: zap.NewNop(), Registerer: prometheus.NewRegistry()})
	require.NoError(t, err)
	table, free := map[string]bool{}, []string{}
	for _, r := range s.table() {
		table[r.method+" "+r.path] = true
		if r.method == "GET" {
			table["HEAD "+r.path] = true
		}
		if r.permission == "" {
			free = append(free, r.path)
		}
		if r.method != "GET" {
			require.True(t, r.target != "" && strings.HasPrefix(string(r.permission), "dlq:"+string(r.target)+":"), "%s: the audit names %q", r.path, r.target)
		}
	}
	require.Equal(t, []string{"/api/v1/me", "/healthz", "/readyz", "/.well-known/oauth-protected-resource", "/openapi.json", "/docs", "/docs/*"}, free)
	for _, routes := range s.app.Stack() {
		for _, r := range routes {
			if r.Path != "/" { // not the middleware
				require.True(t, table[r.Method+" "+r.Path], "%s %s is not in the table", r.Method, r.Path)
			}
		}
	}
}
