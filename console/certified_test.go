package console

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"

	"dlqmanager/client"
)

// certified is the storage of a certified OpenID provider with one client.
type certified struct {
	*storage.Storage

	redirect string
}

// pagesClient has access tokens that are JSON Web Tokens.
type pagesClient struct {
	op.Client

	redirect string
}

func (pagesClient) AccessTokenType() op.AccessTokenType    { return op.AccessTokenTypeJWT }
func (c pagesClient) PostLogoutRedirectURIs() []string     { return []string{c.redirect} }
func (c pagesClient) RedirectURIs() []string               { return []string{c.redirect} }
func (s *certified) client(c op.Client) (op.Client, error) { return pagesClient{c, s.redirect}, nil }

func (s *certified) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := s.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.client(c)
}

const clientSecret = "s3cret/+ %ü"

// certifiedSite is a console whose identity provider is a certified implementation. The provider signs
// people in without a question.
func certifiedSite(t *testing.T) *site {
	t.Helper()
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), ".")
		if len(parts) != 3 {
			reply(w, http.StatusUnauthorized, map[string]any{"error": map[string]any{"code": "SYS_DLQ_UNAUTHENTICATED", "message": "no JSON Web Token"}})
			return
		}
		var claims struct{ Sub, Jti string }
		content, _ := base64.RawURLEncoding.DecodeString(parts[1])
		_ = json.Unmarshal(content, &claims)
		reply(w, http.StatusOK, client.Me{Subject: claims.Sub + " with " + claims.Jti, Method: "oidc"})
	}))
	t.Cleanup(api.Close)
	s := &site{t: t}
	var err error
	s.console, err = New(Options{
		Connect: func(token client.TokenSource) (*client.Client, error) {
			return client.New(api.URL, client.Config{Token: token, Retries: -1})
		},
		SignIn: SignInProvider, Base: "/dlq", Provider: &Provider{
			Issuer: server.URL, ClientID: "pages", ClientSecret: func() (string, error) { return clientSecret, nil },
			Scopes: []string{"openid", "offline_access"},
		},
	})
	require.NoError(t, err)
	s.server = httptest.NewServer(http.StripPrefix("/dlq", s.console))
	t.Cleanup(s.server.Close)

	redirect := s.server.URL + "/dlq" + callbackPath
	kept := &certified{redirect: redirect, Storage: storage.NewStorageWithClients(storage.NewUserStore(server.URL),
		map[string]*storage.Client{"pages": storage.WebClient("pages", clientSecret, redirect)})}
	provider, err := op.NewProvider(&op.Config{CryptoKey: sha256.Sum256([]byte("test")), CodeMethodS256: true, GrantTypeRefreshToken: true, AuthMethodPost: true},
		kept, op.StaticIssuer(server.URL), op.WithAllowInsecure())
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("/login/username", func(w http.ResponseWriter, r *http.Request) {
		id := r.FormValue("authRequestID")
		if err := kept.CheckUsernamePassword("test-user2", "verysecure", id); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		http.Redirect(w, r, op.AuthCallbackURL(provider)(op.ContextWithIssuer(r.Context(), server.URL), id), http.StatusFound)
	})
	mux.Handle("/", provider)
	handler = mux
	return s
}

func TestACertifiedProviderSignsInRenewsAndSignsOut(t *testing.T) {
	t.Parallel()
	s := certifiedSite(t)
	u := s.person()
	first := u.get(begin)
	require.Equal(t, "/dlq/me?a=b", first.address.RequestURI(), first.text)
	require.Contains(t, first.text, "id2 with")

	session := s.console.readSession(requestWith(u.cookies("/dlq/")))
	require.NotEmpty(t, session.Refresh)
	session.Renew = time.Now().Add(-time.Second)
	recorder := httptest.NewRecorder()
	fits, err := s.console.writeSession(recorder, requestWith(u.cookies("/dlq/")), session)
	require.NoError(t, err)
	require.True(t, fits)
	u.client.Jar.SetCookies(first.address, recorder.Result().Cookies())
	second := u.get("/dlq/me")
	require.Contains(t, second.text, "id2 with")
	renewed := s.console.readSession(requestWith(u.cookies("/dlq/")))
	require.NotEqual(t, session.Token, renewed.Token)
	require.NotEqual(t, session.Refresh, renewed.Refresh, "it rotates")

	to, _ := strings.CutPrefix(u.post("/dlq/sign-out").header.Get("Refresh"), "0; url=")
	back := u.send(http.NewRequestWithContext(t.Context(), http.MethodGet, to, http.NoBody))
	require.Equal(t, "/dlq/sign-in", back.address.Path, back.text)
	_, err = s.console.provider.refresh(t.Context(), renewed.Refresh)
	require.ErrorIs(t, err, client.ErrSignIn, "it is revoked")
}

func requestWith(cookies []*http.Cookie) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for _, cookie := range cookies {
		r.AddCookie(cookie)
	}
	return r
}
