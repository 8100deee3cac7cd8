package console

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"

	"dlqmanager/client"
)

// idp is an OpenID provider and the API that accepts its tokens. Each refresh token is valid once, and using one again ends
// the session. A test may change every answer.
type idp struct {
	t        *testing.T
	server   *httptest.Server
	key      *ecdsa.PrivateKey
	metadata map[string]any
	serves   atomic.Value // func(http.ResponseWriter, *http.Request)

	mutex     sync.Mutex
	attempts  map[string]url.Values // by code
	valid     map[string]bool       // tokens that the API accepts
	refresh   string                // the valid refresh token
	renewals  int
	lifetime  int
	answer    func(url.Values)     // changes the answer of the authorization
	claims    func(map[string]any) // changes the claims of the ID token
	tokens    func(map[string]any) // changes the answer with the tokens
	away      bool
	revoked   string
	signedOut url.Values
}

func newIDP(t *testing.T) *idp {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	p := &idp{t: t, key: key, attempts: map[string]url.Values{}, valid: map[string]bool{}, lifetime: 600}
	p.serves.Store(p.serve)
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.serves.Load().(func(http.ResponseWriter, *http.Request))(w, r)
	}))
	t.Cleanup(p.server.Close)
	p.metadata = map[string]any{
		"issuer": p.server.URL, "authorization_endpoint": p.server.URL + "/authorize", "token_endpoint": p.server.URL + "/token",
		"jwks_uri": p.server.URL + "/keys", "end_session_endpoint": p.server.URL + "/end", "revocation_endpoint": p.server.URL + "/revoke",
		"id_token_signing_alg_values_supported": []string{"ES256"}, "authorization_response_iss_parameter_supported": true,
	}
	return p
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (p *idp) serve(w http.ResponseWriter, r *http.Request) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	_ = r.ParseForm()
	if p.away && r.URL.Path != "/api/v1/me" {
		reply(w, http.StatusServiceUnavailable, "away")
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		reply(w, http.StatusOK, p.metadata)
	case "/keys":
		reply(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}}})
	case "/authorize":
		code := rand.Text()
		p.attempts[code] = r.Form
		answer := url.Values{"code": {code}, "state": {r.Form.Get("state")}, "iss": {p.server.URL}}
		if p.answer != nil {
			p.answer(answer)
		}
		http.Redirect(w, r, r.Form.Get("redirect_uri")+"?"+answer.Encode(), http.StatusFound)
	case "/token":
		p.serveTokens(w, r.PostForm)
	case "/revoke":
		p.revoked = r.PostForm.Get("token")
	case "/end":
		p.signedOut = r.Form
		http.Redirect(w, r, r.Form.Get("post_logout_redirect_uri"), http.StatusFound)
	case "/api/v1/me":
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !p.valid[token] {
			reply(w, http.StatusUnauthorized, map[string]any{"error": map[string]any{"code": "SYS_DLQ_UNAUTHENTICATED", "message": "the token is for another audience"}})
			return
		}
		reply(w, http.StatusOK, client.Me{Subject: "alice with " + token[:min(len(token), 20)], Method: "oidc"})
	}
}

func (p *idp) serveTokens(w http.ResponseWriter, form url.Values) {
	refuse := func(why string) {
		reply(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant", "error_description": why})
	}
	switch form.Get("grant_type") {
	case "authorization_code":
		asked, known := p.attempts[form.Get("code")]
		delete(p.attempts, form.Get("code"))
		challenge := sha256.Sum256([]byte(form.Get("code_verifier")))
		if !known || asked.Get("redirect_uri") != form.Get("redirect_uri") || form.Get("client_id") != "console" ||
			asked.Get("code_challenge_method") != "S256" || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(challenge[:]) {
			refuse("not this code")
			return
		}
		p.grant(w, asked.Get("nonce"))
	case "refresh_token":
		p.renewals++
		if form.Get("refresh_token") != p.refresh {
			p.refresh = ""
			refuse("used")
			return
		}
		p.grant(w, "")
	}
}

func (p *idp) grant(w http.ResponseWriter, nonce string) {
	access := fmt.Sprintf("access-%d", len(p.valid)+1)
	p.valid[access] = true
	p.refresh = rand.Text()
	hash := sha256.Sum256([]byte(access))
	claims := map[string]any{
		"iss": p.server.URL, "aud": "console", "sub": "alice", "exp": time.Now().Add(time.Minute).Unix(), "iat": time.Now().Unix(), "nonce": nonce,
		"at_hash": base64.RawURLEncoding.EncodeToString(hash[:16]),
	}
	if p.claims != nil {
		p.claims(claims)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: p.key, KeyID: "1"}}, nil)
	if err != nil {
		panic(err)
	}
	identity, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		panic(err)
	}
	tokens := map[string]any{"access_token": access, "token_type": "Bearer", "refresh_token": p.refresh, "id_token": identity, "expires_in": p.lifetime}
	if p.tokens != nil {
		p.tokens(tokens)
	}
	p.valid[tokens["access_token"].(string)] = true
	reply(w, http.StatusOK, tokens)
}

// set changes the provider between two requests.
func (p *idp) set(change func()) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	change()
}

// site is a console whose people sign in with a provider, below a base path.
type site struct {
	t      *testing.T
	server *httptest.Server
	// console serves the requests. A test may replace it by another replica.
	console *Console
}

func (p *idp) options() Options {
	return Options{
		Connect: func(token client.TokenSource) (*client.Client, error) {
			return client.New(p.server.URL, client.Config{Token: token, Retries: -1})
		},
		SignIn: SignInProvider, Base: "/dlq", Provider: &Provider{Issuer: p.server.URL, ClientID: "console", Scopes: []string{"openid", "offline_access"}},
	}
}

func (p *idp) site(change ...func(*Options)) *site {
	options := p.options()
	for _, f := range change {
		f(&options)
	}
	s := &site{t: p.t}
	var err error
	s.console, err = New(options)
	require.NoError(p.t, err)
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.StripPrefix("/dlq", s.console).ServeHTTP(w, r)
	}))
	p.t.Cleanup(s.server.Close)
	return s
}

// person is a browser with its cookies.
type person struct {
	s      *site
	client *http.Client
}

func (s *site) person() *person {
	jar, err := cookiejar.New(nil)
	require.NoError(s.t, err)
	return &person{s, &http.Client{Jar: jar}}
}

type asked struct {
	status  int
	address *url.URL
	header  http.Header
	text    string
}

func (u *person) send(request *http.Request, err error) asked {
	u.s.t.Helper()
	require.NoError(u.s.t, err)
	answer, err := u.client.Do(request)
	require.NoError(u.s.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(u.s.t, err)
	return asked{answer.StatusCode, answer.Request.URL, answer.Header, string(text)}
}

func (u *person) get(path string) asked {
	u.s.t.Helper()
	return u.send(http.NewRequestWithContext(u.s.t.Context(), http.MethodGet, u.s.server.URL+path, http.NoBody))
}

func (u *person) post(path string) asked {
	u.s.t.Helper()
	return u.send(http.NewRequestWithContext(u.s.t.Context(), http.MethodPost, u.s.server.URL+path, http.NoBody))
}

// stopAt lets the browser follow no redirect to a path.
func (u *person) stopAt(path string) {
	u.client.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == path {
			return http.ErrUseLastResponse
		}
		return nil
	}
}

// cookies returns the browser's cookies for a path.
func (u *person) cookies(path string) []*http.Cookie {
	at, err := url.Parse(u.s.server.URL + path)
	require.NoError(u.s.t, err)
	return u.client.Jar.Cookies(at)
}

func TestAPanicWhileTokensAreRenewedEndsNothing(t *testing.T) {
	t.Parallel()
	p := newRelying(Provider{HTTP: func() (*http.Client, error) { panic("no client") }})
	_, err := p.renew(t.Context(), "refresh-token")
	var panicked *panicError
	require.ErrorAs(t, err, &panicked)
}
