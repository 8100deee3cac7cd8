package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
)

const origin = "https://ops.example"

func withOrigin(o *api.Options) { o.CORSOrigins = []string{"http://localhost:3000", origin} }

func TestWithoutConfiguredOriginsNoneIsAllowed(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, method := range []string{http.MethodGet, http.MethodOptions} {
		_, got := w.send(method, "/api/v1/dlq", nil, "Origin: "+origin, "Access-Control-Request-Method: GET")
		require.Empty(t, got.header.Get("Access-Control-Allow-Origin"))
		require.Empty(t, got.header.Get("Access-Control-Allow-Methods"))
	}
}

func TestConfiguredOriginsMayReadAnswersAndErrors(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t, withOrigin)
	for path, status := range map[string]int{"/api/v1/dlq": 200, "/api/v1/dlq/messages/" + someID: 404, "/nowhere": 404} {
		_, got := w.send(http.MethodGet, path, nil, "Origin: "+origin, bearer("viewer"))
		require.Equal(t, status, got.status)
		require.Equal(t, []string{origin}, got.header.Values("Access-Control-Allow-Origin"), path)
		require.Equal(t, "Origin", got.header.Get("Vary"))
		require.Contains(t, got.header.Get("Access-Control-Expose-Headers"), "X-Request-Id")
		require.Contains(t, got.header.Get("Access-Control-Expose-Headers"), "ETag")
		require.Empty(t, got.header.Get("Access-Control-Allow-Credentials"))
	}
	for _, other := range []string{"https://evil.example", "null", "http://ops.example", origin + ".evil.example", origin + ":8443"} {
		_, got := w.send(http.MethodGet, "/api/v1/dlq", nil, "Origin: "+other, bearer("viewer"))
		require.Empty(t, got.header.Get("Access-Control-Allow-Origin"), other)
		require.Equal(t, "Origin", got.header.Get("Vary"), "no cache mixes the answers up")
	}
}

func TestAPreflightRequestNeedsNoTokenAndChangesNothing(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t, withOrigin)
	path := "/api/v1/dlq/messages/" + someID
	_, got := w.send(http.MethodOptions, path, nil, "Origin: "+origin, "Access-Control-Request-Method: DELETE",
		"Access-Control-Request-Headers: authorization")
	require.Equal(t, http.StatusNoContent, got.status)
	require.Equal(t, origin, got.header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "GET, HEAD, DELETE", got.header.Get("Access-Control-Allow-Methods"))
	require.Equal(t, "Authorization, *", got.header.Get("Access-Control-Allow-Headers"))
	require.Equal(t, "600", got.header.Get("Access-Control-Max-Age"))

	_, got = w.send(http.MethodOptions, path, nil, "Origin: https://evil.example", "Access-Control-Request-Method: DELETE")
	require.Empty(t, got.header.Get("Access-Control-Allow-Methods"))
}

func TestBrowsersAreToldToStayWithTLSOnlyIfTheServerHasIt(t *testing.T) {
	t.Parallel()
	require.Empty(t, start(t).call(http.MethodGet, "/healthz").header.Get("Strict-Transport-Security"))
	w := start(t, func(o *api.Options) { o.ServesTLS = true })
	for _, path := range []string{"/healthz", "/nowhere", "/docs"} {
		_, got := w.send(http.MethodGet, path, nil)
		require.Equal(t, "max-age=31536000", got.header.Get("Strict-Transport-Security"), path)
		require.Equal(t, "no-referrer", got.header.Get("Referrer-Policy"), path)
	}
}
