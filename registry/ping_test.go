package registry_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/sr"
	"go.uber.org/zap"

	"dlqmanager/registry"
)

func TestPingTellsARegistryFromOthers(t *testing.T) {
	t.Parallel()
	w := start(t)
	require.NoError(t, w.decoder.Ping(t.Context()), "without subjects")
	w.register("orders-value", sr.TypeAvro, avroString)
	require.NoError(t, w.decoder.Ping(t.Context()))

	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"too many subjects": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `["`+strings.Repeat("x", 2<<20)+`"]`)
		}, ""},
		"a wrong password": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "secret", http.StatusUnauthorized) }, "the schema registry refuses the credentials (401)"},
		"no right":         {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, "the schema registry refuses the credentials (403)"},
		"a failure":        {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "the schema registry answers with 502"},
		"a web page":       {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, "it is not a schema registry: it does not list subjects"},
		"another path":     {http.NotFound, "it is not a schema registry: it does not list subjects"},
		"a redirect":       {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusFound) }, "the schema registry redirects to another URL"},
	} {
		server := httptest.NewServer(c.answer)
		t.Cleanup(server.Close)
		err := start(t, func(o *registry.Options) { o.URLs = []string{server.URL} }).decoder.Ping(t.Context())
		if c.want == "" {
			require.NoError(t, err, name)
		} else {
			require.EqualError(t, err, c.want, name)
		}
	}

	w.fake.Close()
	require.ErrorContains(t, w.decoder.Ping(t.Context()), "dial tcp 127.0.0.1:")
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = zap.NewStdLog(zap.NewNop())
	secure.StartTLS()
	t.Cleanup(secure.Close)
	require.ErrorContains(t, start(t, func(o *registry.Options) { o.URLs = []string{secure.URL} }).decoder.Ping(t.Context()), "certificate")
}

func TestPingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Cleanup(w.silent())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.EqualError(t, w.decoder.Ping(ctx), "the schema registry has not answered in time")
}
