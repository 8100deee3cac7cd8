package e2e

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"

	"dlqmanager/internal/certtest"
	"dlqmanager/internal/kafkatest"
)

// keySecret is in the key file of the API's HTTPS, before the key.
const keySecret = "zq7KeyFileSecret"

// identityProvider signs tokens.
type identityProvider struct {
	*httptest.Server
	signer jose.Signer
}

func newIdentityProvider(t *testing.T) *identityProvider {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	key := jose.JSONWebKey{Key: private, KeyID: "first", Algorithm: "RS256", Use: "sig"}
	p := &identityProvider{}
	p.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, nil)
	require.NoError(t, err)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}}
		if strings.HasSuffix(r.URL.Path, "openid-configuration") {
			answer = map[string]any{"issuer": p.URL, "jwks_uri": p.URL + "/keys", "authorization_endpoint": p.URL, "token_endpoint": p.URL,
				"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
				"id_token_signing_alg_values_supported": []string{"RS256"}}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *identityProvider) token(t *testing.T, audience string, expires time.Time) string {
	t.Helper()
	token, err := jwt.Signed(p.signer).Claims(jwt.Claims{Issuer: p.URL, Subject: "ops", Audience: jwt.Audience{audience},
		IssuedAt: jwt.NewNumericDate(expires.Add(-time.Hour)), Expiry: jwt.NewNumericDate(expires)}).
		Claims(map[string]any{"groups": "admins"}).Serialize()
	require.NoError(t, err)
	return token
}

// No output shows a token or a key, whether it is accepted, refused or unreadable.
func TestTokensOfAProviderAndKeyFilesAppearInNoOutput(t *testing.T) {
	t.Parallel()
	provider, authority := newIdentityProvider(t), certtest.NewAuthority(t)
	files := certtest.Write(t, authority.Issue(t, "api"))
	_, block := certtest.PEM(t, authority.Issue(t, "api"))
	marks := append([]string{keySecret}, markKeyFile(t, files)...)
	s := newSystem(t, kafkatest.FakeCluster(t))
	s.env = append(s.env, "DLQ_LOG_LEVEL=debug", "DLQ_AUDIT_LOG=true", "DLQ_SERVER_TLS_CERT_FILE="+files.Cert, "DLQ_SERVER_TLS_KEY_FILE="+files.Key,
		"DLQ_AUTH_MODE=oidc", "DLQ_AUTH_OIDC_ISSUER="+provider.URL, "DLQ_AUTH_OIDC_AUDIENCE=dlq-manager", "DLQ_AUTH_OIDC_ROLES=admins=admin")
	address := freeAddress(t)
	api := s.launch("api", address, "DLQ_SERVER_PORT="+port(address))
	s.startWorker()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: authority.Pool()}}}
	ask := func(method, path, token string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), method, "https://"+address+path, http.NoBody)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := client.Do(request)
		if err != nil {
			return 0, err.Error()
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(body)
	}
	s.eventually("it is ready", func() bool { status, _ := ask(http.MethodGet, "/readyz", ""); return status == http.StatusOK })

	later := time.Now().Add(time.Hour)
	for token, status := range map[string]int{
		provider.token(t, "dlq-manager", later):                      http.StatusNotFound,
		provider.token(t, "another", later):                          http.StatusUnauthorized,
		provider.token(t, "dlq-manager", time.Now().Add(-time.Hour)): http.StatusUnauthorized,
		provider.token(t, "dlq-manager", later) + "x":                http.StatusUnauthorized,
	} {
		marks = append(marks, strings.Split(token, ".")[1:]...) // the first part is the same in all tokens
		got, body := ask(http.MethodDelete, "/api/v1/dlq/messages/"+strings.Repeat("0", 8)+"-0000-7000-8000-000000000000", token)
		require.Equal(t, status, got, body)
		for _, path := range []string{"/api/v1/me", "/api/v1/audit", "/metrics", "/docs"} {
			_, body := ask(http.MethodGet, path, token)
			requireAbsent(t, path, []byte(body), marks...)
		}
	}

	require.NoError(t, os.WriteFile(files.Key, []byte(keySecret+"\n"+strings.TrimPrefix(string(block), "-----BEGIN")), 0o600))
	s.eventually("the key is unreadable", func() bool {
		_, _ = ask(http.MethodGet, "/readyz", "")
		return strings.Contains(api.log.tail(1<<30), "server.tls.cert_file and server.tls.key_file: ")
	})
	require.NoError(t, api.end())
	requireAbsent(t, "the log", []byte(api.log.tail(1<<30)), marks...)
	requireAbsent(t, "the configuration", s.run("api", "config"), marks...)
	start := s.command("api")
	start.Env = slices.Concat(s.env, []string{"DLQ_SERVER_PORT=" + port(freeAddress(t))})
	refusal, err := start.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(refusal), "server.tls.key_file")
	requireAbsent(t, "the refusal", refusal, marks...)
}

// markKeyFile puts a mark before the key, and returns the lines of the key as further marks.
func markKeyFile(t *testing.T, files certtest.Files) []string {
	t.Helper()
	content, err := os.ReadFile(files.Key)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	certtest.Replace(t, files.Key, append([]byte(keySecret+"\n"), content...))
	_, err = tls.LoadX509KeyPair(files.Cert, files.Key)
	require.NoError(t, err)
	return lines[1 : len(lines)-1]
}
