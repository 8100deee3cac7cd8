package console

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func publicKey(key *ecdsa.PrivateKey) []byte {
	content, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: content})
}

// signedAs replaces the signature of the ID token, under the id of the provider's key. A nil key signs nothing.
func signedAs(algorithm jose.SignatureAlgorithm, key any) func(map[string]any) {
	return func(tokens map[string]any) {
		encoded := strings.Split(tokens["id_token"].(string), ".")[1]
		if key == nil {
			header, _ := json.Marshal(map[string]any{"alg": algorithm, "kid": "1"})
			tokens["id_token"] = base64.RawURLEncoding.EncodeToString(header) + "." + encoded + "."
			return
		}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "1"))
		if err != nil {
			panic(err)
		}
		claims, _ := base64.RawURLEncoding.DecodeString(encoded)
		signed, err := signer.Sign(claims)
		if err != nil {
			panic(err)
		}
		if tokens["id_token"], err = signed.CompactSerialize(); err != nil {
			panic(err)
		}
	}
}

// instead makes another handler answer the requests for tokens while isOn is set.
func (p *idp) instead(isOn *atomic.Bool, tokens http.HandlerFunc) {
	p.serves.Store(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" && isOn.Load() {
			tokens(w, r)
			return
		}
		p.serve(w, r)
	})
}

// late makes the answers to requests for tokens wait for release while isOn is set.
func (p *idp) late(isOn *atomic.Bool, release <-chan struct{}) {
	p.instead(isOn, func(w http.ResponseWriter, r *http.Request) {
		<-release
		p.serve(w, r)
	})
}

func TestATokenEndpointThatFailsIsToldToTheLog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer       http.HandlerFunc
		logged, says string
	}{
		"HTML with 500": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte("<html>internal-host"))
		}, "500 Internal Server Error", "does not answer as it should"},
		"HTML with 200": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>internal-host")) }, "cannot parse json", "does not answer as it should"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://evil.example/internal-host", http.StatusTemporaryRedirect)
		}, "307 Temporary Redirect", "does not answer as it should"},
		"nothing":      {func(http.ResponseWriter, *http.Request) {}, "cannot parse json", "does not answer as it should"},
		"a cut answer": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF", "does not answer as it should"},
		"no token":     {func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, nil) }, "missing access_token", "does not answer as it should"},
		"an error's name": {func(w http.ResponseWriter, _ *http.Request) {
			reply(w, http.StatusBadRequest, map[string]string{"error": "invalid_client"})
		}, "invalid_client", "has failed: invalid_client</p>"},
		"a long error": {func(w http.ResponseWriter, _ *http.Request) {
			reply(w, http.StatusBadRequest, map[string]string{"error": strings.Repeat("e", 5000), "error_description": strings.Repeat("<script>", 5000)})
		}, "eee", "has failed: eee"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, on := newIDP(t), &atomic.Bool{}
			on.Store(true)
			p.instead(on, c.answer)
			core, logs := observer.New(zap.WarnLevel)
			got := p.site(func(o *Options) { o.Logger = zap.New(core) }).person().get(begin)
			require.Equal(t, http.StatusBadGateway, got.status)
			require.Contains(t, got.text, c.says)
			require.NotContains(t, got.text, "internal-host", "strangers learn no details")
			require.NotContains(t, got.text, "<script>s")
			require.Less(t, len(got.text), 6000)
			require.Contains(t, logs.All()[0].ContextMap()["error"], c.logged)
			require.NotContains(t, logs.All()[0].ContextMap()["error"], "internal-host")
		})
	}
}

func TestKeysOfTheProviderAreNotFetchedWithoutTLS(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	secure := httptest.NewTLSServer(http.HandlerFunc(p.serve))
	t.Cleanup(secure.Close)
	for name, value := range p.metadata {
		if address, ok := value.(string); ok && name != "jwks_uri" {
			p.metadata[name] = strings.Replace(address, p.server.URL, secure.URL, 1)
		}
	}
	got := p.site(func(o *Options) {
		o.Provider.Issuer, o.Provider.HTTP = secure.URL, func() (*http.Client, error) { return secure.Client(), nil }
	}).person().get(begin)
	require.Equal(t, http.StatusBadGateway, got.status)
	require.Contains(t, got.text, "which is not https")
}

// dueFor rewrites the session of a browser, so that its token must be renewed now and ends after the given
// time.
func (u *person) dueFor(left time.Duration) {
	u.s.t.Helper()
	before := requestWith(u.cookies("/dlq/"))
	s := u.s.console.readSession(before)
	s.Renew, s.Expires = time.Now().Add(-time.Second), time.Now().Add(left)
	recorder := httptest.NewRecorder()
	fits, err := u.s.console.writeSession(recorder, before, s)
	require.NoError(u.s.t, err)
	require.True(u.s.t, fits)
	u.client.Jar.SetCookies(u.at("/dlq/"), recorder.Result().Cookies())
}

func (u *person) at(path string) *url.URL {
	at, err := url.Parse(u.s.server.URL + path)
	require.NoError(u.s.t, err)
	return at
}

// tab returns another tab of the browser, which has a copy of the present cookies.
func (u *person) tab() *person {
	tab := u.s.person()
	tab.client.Jar.SetCookies(u.at("/dlq/"), u.cookies("/dlq/"))
	return tab
}

func TestAProviderThatHangsHoldsNoPageWhoseTokenIsValid(t *testing.T) {
	t.Parallel()
	p, on, release := newIDP(t), &atomic.Bool{}, make(chan struct{})
	defer close(release)
	asked := atomic.Int32{}
	p.instead(on, func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		<-release
	})
	s := p.site()
	s.console.provider.patience = time.Millisecond
	u := s.person()
	u.get(begin)
	u.dueFor(time.Hour)
	on.Store(true)
	for range 3 {
		require.Contains(t, u.get("/dlq/me").text, "alice with access-1")
	}
	require.Equal(t, int32(1), asked.Load(), "all pages wait for one renewal")
}

func TestAPageAfterASlowRenewalHasItsTokens(t *testing.T) {
	t.Parallel()
	p, on, release := newIDP(t), &atomic.Bool{}, make(chan struct{})
	p.late(on, release)
	s := p.site()
	s.console.provider.patience = time.Millisecond
	u := s.person()
	u.get(begin)
	u.dueFor(time.Hour)
	on.Store(true)
	require.Contains(t, u.get("/dlq/me").text, "access-1")
	close(release)
	require.Eventually(t, func() bool { return strings.Contains(u.get("/dlq/me").text, "access-2") }, 10*time.Second, 10*time.Millisecond)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	require.Equal(t, 1, p.renewals)
}

func TestASignOutWhileATokenIsRenewedLasts(t *testing.T) {
	t.Parallel()
	p, on, held, release := newIDP(t), &atomic.Bool{}, make(chan struct{}), make(chan struct{})
	p.instead(on, func(w http.ResponseWriter, r *http.Request) {
		close(held)
		<-release
		p.serve(w, r)
	})
	s := p.site()
	u := s.person()
	u.get(begin)
	tab := u.tab()
	p.set(func() { p.valid["access-1"] = false })
	on.Store(true)
	late := make(chan asked)
	go func() { late <- tab.get("/dlq/me") }()
	<-held
	require.Equal(t, http.StatusOK, u.post("/dlq/sign-out").status)
	close(release)
	require.Equal(t, "/dlq/sign-in", (<-late).address.Path)
	for _, cookie := range tab.cookies("/dlq/") {
		require.NotEqual(t, sessionCookie, cookie.Name, "no page brings the session back")
	}
	require.Eventually(t, func() bool {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		return p.refresh != "" && p.revoked == p.refresh
	}, 10*time.Second, time.Millisecond, "the new refresh token is revoked")
}

func TestAPageThatWasRenewedBeforeASignOutDoesNotBringTheSessionBack(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	s := p.site()
	u := s.person()
	u.get(begin)
	token, late := u.tab(), u.tab()
	p.set(func() { clear(p.valid) })
	require.Contains(t, token.get("/dlq/me").text, "alice", "this tab renews")
	v := &visit{Request: requestWith(late.cookies("/dlq/")), writer: httptest.NewRecorder(), console: s.console}
	v.source = &source{provider: s.console.provider, session: s.console.readSession(v.Request)}
	v.source.session.Renew = time.Now().Add(-time.Second)
	_, err := v.source.Token(t.Context())
	require.NoError(t, err)
	require.True(t, v.source.changed, "this page has the renewed tokens too")
	require.Equal(t, http.StatusOK, u.post("/dlq/sign-out").status, "with the former cookie")
	require.Equal(t, p.refresh, p.revoked, "the token of the renewal is revoked")
	s.console.saveSession(v)
	require.Empty(t, v.writer.Header()["Set-Cookie"])
	require.Contains(t, s.person().get(begin).text, "alice", "a new sign-in works at once")
}

func TestALongAddressToGoBackToFitsIntoACookie(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	s := p.site()
	for next, want := range map[string]string{
		"/me?a=" + strings.Repeat("x", 2000):       "/dlq/me?a=" + strings.Repeat("x", 2000),
		"/me?a=" + strings.Repeat("x", 4000):       "/dlq/me",
		"/topics/" + strings.Repeat("x", 4000):     "/dlq/",
		"/me?" + strings.Repeat("a=b&", 1900):      "/dlq/me",
		"/topics/a?a=" + strings.Repeat("x", 9000): "/dlq/",
	} {
		u := s.person()
		u.client.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
			for _, cookie := range r.Response.Header["Set-Cookie"] {
				require.Less(t, len(cookie), 4096)
			}
			if strings.HasPrefix(r.URL.RequestURI(), want) && !strings.Contains(r.URL.Path, "sign-in") {
				return http.ErrUseLastResponse
			}
			return nil
		}
		got := u.get("/dlq/sign-in/openid?" + url.Values{"next": {next}}.Encode())
		require.Equal(t, want, got.header.Get("Location"))
	}
}

func TestALongSentenceForTheNextPageFitsIntoACookie(t *testing.T) {
	t.Parallel()
	c, err := New(newIDP(t).options())
	require.NoError(t, err)
	for _, text := range []string{"done", strings.Repeat("<&>", 3000), strings.Repeat("保", 3000)} {
		w := httptest.NewRecorder()
		c.setFlash(&visit{Request: requestWith(nil), writer: w, flash: &flash{Kind: "refused", Text: text, Path: "/me"}})
		set := w.Header().Get("Set-Cookie")
		require.NotEmpty(t, set)
		require.Less(t, len(set), 1700)
		r := requestWith(w.Result().Cookies())
		r.URL.Path = "/me"
		got := c.takeFlash(httptest.NewRecorder(), r)
		require.Equal(t, text[:4], got.Text[:4])
	}
}
