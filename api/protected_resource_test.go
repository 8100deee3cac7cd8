package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
)

const wellKnown = "/.well-known/oauth-protected-resource"

func withIssuer(o *api.Options) { o.Issuer = "https://id.example/realms/ops" }

func TestProgramsFindTheIdentityProvider(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change   func(*api.Options)
		resource string
	}{
		"by the request":       {func(*api.Options) {}, ""},
		"by the configuration": {func(o *api.Options) { o.PublicURL = "https://ops.example/dlq/" }, "https://ops.example/dlq"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startWithTokens(t, withIssuer, c.change)
			resource := c.resource
			if resource == "" {
				resource = "http://" + w.address
			}
			got := w.call(http.MethodGet, wellKnown)
			require.Equal(t, http.StatusOK, got.status)
			require.JSONEq(t, `{"resource": "`+resource+`", "authorization_servers": ["https://id.example/realms/ops"],
				"scopes_supported": ["openid"], "bearer_methods_supported": ["header"]}`, got.body)
			refused := w.call(http.MethodGet, "/api/v1/me")
			require.Equal(t, http.StatusUnauthorized, refused.status)
			require.Equal(t, `Bearer realm="dlq-manager", resource_metadata="`+resource+wellKnown+`"`, refused.header.Get("WWW-Authenticate"))
		})
	}
}

func TestWithoutAnIdentityProviderNoneIsNamed(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	message, _ := requireError(t, w.call(http.MethodGet, wellKnown), http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
	require.Contains(t, message, "no identity provider")
	require.Equal(t, `Bearer realm="dlq-manager"`, w.call(http.MethodGet, "/api/v1/me").header.Get("WWW-Authenticate"))
}

func TestAForeignNameIsNotRepeatedAsTheAddressOfTheAPI(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t, withIssuer)
	require.Equal(t, http.StatusForbidden, w.raw("GET "+wellKnown+" HTTP/1.1\r\nHost: evil.example\r\n\r\n").status)
	for _, host := range []string{"evil.example", `x:1"`} {
		refused := w.raw("GET /api/v1/me HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
		challenge := refused.header.Get("WWW-Authenticate")
		require.NotContains(t, challenge, "evil")
		require.NotContains(t, challenge, `1"`)
	}
}
