package webhook

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPingTakesAnyAnswerOfTheEndpoint(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 204, 302, 401, 404, 405, 500} {
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodHead || r.Header.Get("Authorization") != "" {
				status = http.StatusServiceUnavailable
			}
			w.WriteHeader(status)
		})
		require.NoError(t, newBench(t, url, nil).publisher.Ping(t.Context(), "shop"), status)
	}
}

func TestPingSaysWhyAnEndpointCannotBeReached(t *testing.T) {
	t.Parallel()
	healthy := serve(t, func(http.ResponseWriter, *http.Request) {})
	away := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	for name, c := range map[string]struct {
		url, want string
		change    func(*Options, *Endpoint)
	}{
		"a proxy":             {away, "it answered 502 Bad Gateway", nil},
		"no TLS":              {"https" + strings.TrimPrefix(healthy, "http"), "does not look like a TLS handshake", nil},
		"a forbidden network": {healthy, "targets.allowed_networks", func(o *Options, _ *Endpoint) { o.AllowedNetworks = nil }},
		"silence":             {raw(t, silent), "no answer within 50ms", func(_ *Options, e *Endpoint) { e.Timeout = 50 * time.Millisecond }},
	} {
		err := newBench(t, c.url+"/?token=s3cret-query", c.change).publisher.Ping(t.Context(), "shop")
		require.ErrorContains(t, err, c.want, name)
		require.NotContains(t, err.Error(), "s3cret-query", name)
		require.NotContains(t, err.Error(), "send to", name)
	}
}
