package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

const audience = "dlq-manager"

// provider is a certified OpenID provider with HTTPS. The test controls its keys. Its clients get JSON Web Tokens as access
// tokens.
type provider struct {
	*storage.Storage

	server *httptest.Server
	// fetches counts the requests for keys. away makes the provider answer 503.
	fetches atomic.Int32
	away    atomic.Bool

	mu     sync.Mutex
	signer *key   // signs new tokens
	keys   []*key // the published keys
	groups any    // the groups claim of new tokens
}

// key implements op.SigningKey and op.Key.
type key struct {
	id        string
	algorithm jose.SignatureAlgorithm
	private   crypto.Signer
	public    bool
}

func (k *key) ID() string                                  { return k.id }
func (k *key) SignatureAlgorithm() jose.SignatureAlgorithm { return k.algorithm }
func (k *key) Algorithm() jose.SignatureAlgorithm          { return k.algorithm }
func (k *key) Use() string                                 { return "sig" }

func (k *key) Key() any {
	if k.public {
		return k.private.Public()
	}
	return k.private
}

// rsaKeys are made only once, since it takes a while.
var rsaKeys = sync.OnceValue(func() [3]*rsa.PrivateKey {
	var keys [3]*rsa.PrivateKey
	for i := range keys {
		keys[i], _ = rsa.GenerateKey(rand.Reader, 2048)
	}
	return keys
})

func newRSAKey(id string, n int) *key {
	return &key{id: id, algorithm: jose.RS256, private: rsaKeys()[n]}
}

func newECKey(t *testing.T, id string) *key {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return &key{id: id, algorithm: jose.ES256, private: private}
}

func newProvider(t testing.TB, keys ...*key) *provider {
	t.Helper()
	if len(keys) == 0 {
		keys = []*key{newRSAKey("first", 0)}
	}
	p := &provider{signer: keys[0], keys: keys, groups: []string{"payments"}}
	var handler http.Handler
	p.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.away.Load() {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		if r.URL.Path == "/keys" {
			p.fetches.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(p.server.Close)
	users := storage.NewUserStore(p.server.URL)
	p.Storage = storage.NewStorageWithClients(users, map[string]*storage.Client{})
	var err error
	handler, err = op.NewProvider(&op.Config{CryptoKey: sha256.Sum256([]byte("test"))}, p, op.StaticIssuer(p.server.URL))
	require.NoError(t, err)
	return p
}

func (p *provider) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *provider) SigningKey(context.Context) (op.SigningKey, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.signer, nil
}

func (p *provider) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256, jose.ES256}, nil
}

func (p *provider) KeySet(context.Context) ([]op.Key, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var keys []op.Key
	for _, k := range p.keys {
		keys = append(keys, &key{id: k.id, algorithm: k.algorithm, private: k.private, public: true})
	}
	return keys, nil
}

// jwtClient is a client whose access tokens are JSON Web Tokens.
type jwtClient struct{ op.Client }

func (jwtClient) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }

func (p *provider) ClientCredentials(ctx context.Context, id, secret string) (op.Client, error) {
	client, err := p.Storage.ClientCredentials(ctx, id, secret)
	return jwtClient{client}, err
}

// forAudience is a request for a token for our audience.
type forAudience struct{ op.TokenRequest }

func (forAudience) GetAudience() []string { return []string{audience} }

func (p *provider) ClientCredentialsTokenRequest(ctx context.Context, id string, scopes []string) (op.TokenRequest, error) {
	request, err := p.Storage.ClientCredentialsTokenRequest(ctx, id, scopes)
	return forAudience{request}, err
}

func (p *provider) GetPrivateClaimsFromScopes(context.Context, string, string, []string) (map[string]any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return map[string]any{"groups": p.groups}, nil
}

// token asks the provider for an access token.
func (p *provider) token(t testing.TB) string {
	t.Helper()
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {"openid"}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.server.URL+"/oauth/token", strings.NewReader(form.Encode()))
	require.NoError(t, err)
	request.SetBasicAuth("sid1", "verysecret")
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := p.server.Client().Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Token string `json:"access_token"`
		Error string `json:"error_description"`
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
	require.NotEmpty(t, answer.Token, answer.Error)
	return answer.Token
}

// clock is a clock that the test sets.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Now().UnixNano())
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

// oidcFor returns an authenticator for the provider. It has not fetched the keys yet.
func (p *provider) oidcFor(t testing.TB, c *clock) *OIDC {
	t.Helper()
	operator, err := dlq.NewGrant(dlq.RoleOperator, []string{"payments.*"})
	require.NoError(t, err)
	admin, err := dlq.NewGrant(dlq.RoleAdmin, nil)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(p.server.Certificate())
	return NewOIDC(OIDCOptions{
		Issuer: p.server.URL, Audience: audience, SubjectClaim: "sub", RolesClaim: "groups",
		Roles: map[string]dlq.Grant{"payments": operator, "dlq-admins": admin}, ClockSkew: time.Minute,
		TLS: func() (*tls.Config, error) { return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil },
		Log: zap.NewNop(), now: c.now,
	})
}
