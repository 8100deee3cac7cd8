package console

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
)

const begin = "/dlq/sign-in/openid?next=%2Fme%3Fa%3Db"

func TestAPersonSignsInWithTheProviderAndOut(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	s := p.site()
	u := s.person()
	form := u.get("/dlq/me?a=b")
	require.Equal(t, "/dlq/sign-in", form.address.Path)
	require.Contains(t, form.text, `href="/dlq/sign-in/openid?next=%2Fme%3Fa%3Db"`)
	require.NotContains(t, form.text, `name="token"`)
	me := u.get(begin)
	require.Equal(t, "/dlq/me?a=b", me.address.RequestURI(), me.text)
	require.Contains(t, me.text, "alice with access-1")
	for _, cookie := range u.cookies("/dlq/") {
		require.NotContains(t, cookie.Value, "access-1")
	}
	require.Empty(t, u.cookies("/other"), "other programs of the host get no cookie")
	out := u.post("/dlq/sign-out")
	require.Equal(t, http.StatusOK, out.status)
	to, isRefresh := strings.CutPrefix(out.header.Get("Refresh"), "0; url=")
	require.True(t, isRefresh)
	require.NotEmpty(t, p.revoked)
	require.Equal(t, p.refresh, p.revoked)
	back := u.send(http.NewRequestWithContext(t.Context(), http.MethodGet, to, http.NoBody))
	require.Equal(t, s.server.URL+"/dlq/sign-in", back.address.String())
	require.Equal(t, "console", p.signedOut.Get("client_id"))
	require.NotEmpty(t, p.signedOut.Get("id_token_hint"))
	require.Equal(t, "/dlq/sign-in", u.get("/dlq/me").address.Path)
}

func TestTokensAndTheProviderAreBesideEachOther(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	u := p.site(func(o *Options) { o.SignIn = SignInToken }).person()
	form := u.get("/dlq/sign-in")
	require.Contains(t, form.text, `name="token"`)
	require.Contains(t, form.text, "/dlq/sign-in/openid")
	require.Contains(t, u.get(begin).text, "alice with")
}

func TestAnAnswerThatThisBrowserDidNotAskForSignsNobodyIn(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	s := p.site()
	attacker, victim := s.person(), s.person()
	attacker.stopAt("/dlq/sign-in/callback")
	answer, err := url.Parse(attacker.get(begin).header.Get("Location"))
	require.NoError(t, err)
	for name, u := range map[string]*person{"without an attempt": victim, "with one of their own": s.person()} {
		if name != "without an attempt" {
			u.stopAt("/dlq/sign-in/callback")
			u.get(begin)
		}
		got := u.get(answer.RequestURI())
		require.Equal(t, http.StatusUnauthorized, got.status, name)
		require.Contains(t, got.text, "begun in another browser")
		require.Equal(t, "/dlq/sign-in", u.get("/dlq/me").address.Path, name)
	}
	require.Equal(t, "/dlq/me", attacker.get(answer.RequestURI()).address.Path, "the browser itself may")
	require.Equal(t, http.StatusUnauthorized, attacker.get(answer.RequestURI()).status, "once")
}

func TestAnswersOfTheProviderThatAreNotForThisSignInAreRefused(t *testing.T) {
	t.Parallel()
	for says, bend := range map[string]func(*idp){
		"another identity provider":      func(p *idp) { p.answer = func(a url.Values) { a.Set("iss", "https://evil.example") } },
		"from another identity provider": func(p *idp) { p.answer = func(a url.Values) { a.Del("iss") } },
		"not this code":                  func(p *idp) { p.answer = func(a url.Values) { a.Set("code", "of-another-provider") } },
		"of another sign-in":             func(p *idp) { p.claims = func(c map[string]any) { c["nonce"] = "other" } },
		"belongs to another ID token":    func(p *idp) { p.tokens = func(a map[string]any) { a["access_token"] = "of-another-user" } },
		"expected audience":              func(p *idp) { p.claims = func(c map[string]any) { c["aud"] = "another-client" } },
		"different provider":             func(p *idp) { p.claims = func(c map[string]any) { c["iss"] = "https://evil.example" } },
		"token is expired":               func(p *idp) { p.claims = func(c map[string]any) { c["exp"] = time.Now().Add(-time.Hour).Unix() } },
		"before the nbf":                 func(p *idp) { p.claims = func(c map[string]any) { c["nbf"] = time.Now().Add(time.Hour).Unix() } },
		"for the client &#34;another": func(p *idp) {
			p.claims = func(c map[string]any) { c["aud"], c["azp"] = []string{"console", "another"}, "another" }
		},
		"it has no sub":                  func(p *idp) { p.claims = func(c map[string]any) { delete(c, "sub") } },
		"signature algorithm &#34;none":  func(p *idp) { p.tokens = signedAs("none", nil) },
		"signature algorithm &#34;HS256": func(p *idp) { p.tokens = signedAs(jose.HS256, publicKey(p.key)) },
		"verify id token signature":      func(p *idp) { p.tokens = signedAs(jose.ES256, newKey(p.t)) },
		"no page for a sign-in":          func(p *idp) { delete(p.metadata, "authorization_endpoint") },
		"no ID token":                    func(p *idp) { p.tokens = func(a map[string]any) { delete(a, "id_token") } },
		"&lt;b&gt;denied: you &amp; I": func(p *idp) {
			p.answer = func(a url.Values) { a.Del("code"); a.Set("error", "<b>denied"); a.Set("error_description", "you & I") }
		},
		"which is not https": func(p *idp) { p.metadata["token_endpoint"] = "ftp://127.0.0.1/" },
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			p := newIDP(t)
			bend(p)
			u := p.site().person()
			got := u.get(begin)
			require.GreaterOrEqual(t, got.status, 400)
			require.Contains(t, got.text, says)
			require.Equal(t, "/dlq/sign-in", u.get("/dlq/me").address.Path, "nobody is signed in")
		})
	}
}

func TestATokenThatTheAPIRefusesIsToldToAdministrators(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	u := p.site(func(o *Options) { o.Connect = newIDP(t).options().Connect }).person() // an API of another provider
	got := u.get(begin)
	require.Equal(t, http.StatusUnauthorized, got.status)
	require.Contains(t, got.text, "the token is for another audience")
	require.Contains(t, got.text, "administrators")
}

func TestASignInLeadsToNoOtherServer(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	s := p.site()
	for _, next := range []string{
		"https://evil.example/", "//evil.example", `/\evil.example`, `\/evil.example`, "/\t/evil.example", "javascript:alert(1)", "https:/evil.example",
		" //evil.example", "///evil.example", "/../other", "/a/../../other", "/%2e%2e/other", "/%2f../other", "/.",
	} {
		u := s.person()
		u.stopAt("/dlq/")
		require.Equal(t, "/dlq/", u.get("/dlq/sign-in/openid?"+url.Values{"next": {next}}.Encode()).header.Get("Location"), next)
	}
}

func TestAProviderThatIsAwayIsAPageThatSaysSo(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	p.away = true
	got := p.site().person().get(begin)
	require.Equal(t, http.StatusBadGateway, got.status)
	require.Contains(t, got.text, "The identity provider does not answer as it should")
	require.NotContains(t, got.text, "503", "strangers learn no details")
	require.Contains(t, got.text, "/dlq/sign-in/openid", "to try again")
}

func TestATokenIsRenewedBeforeItEnds(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	s := p.site()
	u := s.person()
	p.lifetime = 1 // less than a second before a renewal
	require.Contains(t, u.get(begin).text, "access-1")
	require.Eventually(t, func() bool { return strings.Contains(u.get("/dlq/me").text, "access-2") }, 10*time.Second, 10*time.Millisecond)
}

func TestATokenThatTheAPIRefusesIsRenewed(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	u := p.site().person()
	u.get(begin)
	p.set(func() { clear(p.valid) })
	require.Contains(t, u.get("/dlq/me").text, "access-1", "the next one")
	require.Equal(t, 1, p.renewals)
	require.Contains(t, u.get("/dlq/me").text, "access-1")
	require.Equal(t, 1, p.renewals, "its cookie is kept")
}

func TestTabsThatRenewAtOnceStaySignedIn(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	s := p.site()
	u := s.person()
	u.get(begin)
	before := u.cookies("/dlq/")
	p.set(func() { clear(p.valid) })
	var tabs sync.WaitGroup
	for range 8 {
		tabs.Go(func() {
			tab := s.person()
			at, _ := url.Parse(s.server.URL + "/dlq/")
			tab.client.Jar.SetCookies(at, before) // the cookies that the tab had when it sent its request
			got := tab.get("/dlq/me")
			require.Equal(t, "/dlq/me", got.address.Path)
		})
	}
	tabs.Wait()
	require.Equal(t, 1, p.renewals)
}

func TestAnotherReplicaHasRenewedTheSessionAlready(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	key := NewKey()
	with := func(o *Options) { o.Keys = func() []Key { return []Key{key} } }
	s, other := p.site(with), p.site(with)
	u := s.person()
	u.get(begin)
	at, _ := url.Parse(s.server.URL + "/dlq/")
	before := u.cookies("/dlq/")
	p.set(func() { clear(p.valid) })
	s.console, other.console = other.console, s.console
	require.Equal(t, "/dlq/me", u.get("/dlq/me").address.Path, "the other replica renews")
	after := u.cookies("/dlq/")
	s.console, other.console = other.console, s.console
	late := s.person() // its request has the former cookie, and meanwhile the browser gets the new cookie
	late.client.Jar.SetCookies(at, before)
	late.client.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		late.client.Jar.SetCookies(at, after)
		for _, cookie := range after {
			r.Header.Del("Cookie")
			r.AddCookie(cookie)
		}
		return nil
	}
	got := late.get("/dlq/me")
	require.Equal(t, "/dlq/me", got.address.Path, got.text)
	require.Contains(t, got.text, "alice")
}

func TestASessionThatHasEndedAtTheProviderAsksToSignInAgain(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	u := p.site().person()
	u.get(begin)
	p.set(func() { clear(p.valid); p.refresh = "" })
	require.Equal(t, "/dlq/sign-in", u.get("/dlq/me?a=b").address.Path)
	for _, cookie := range u.cookies("/dlq/") {
		require.NotEqual(t, sessionCookie, cookie.Name)
	}
}

func TestAProviderThatIsAwayEndsNoSession(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	u := p.site().person()
	u.get(begin)
	p.set(func() { clear(p.valid); p.away = true })
	got := u.get("/dlq/me")
	require.Equal(t, http.StatusBadGateway, got.status)
	require.Contains(t, got.text, "The identity provider does not answer")
	p.set(func() { p.away = false })
	require.Contains(t, u.get("/dlq/me").text, "alice")
}

func TestLongTokensAreSplitOverCookies(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	long := strings.Repeat("x", 5000)
	p.claims = func(c map[string]any) { delete(c, "at_hash"); c["long"] = long }
	p.tokens = func(a map[string]any) { a["access_token"] = long }
	u := p.site().person()
	require.Contains(t, u.get(begin).text, "alice with xxx")
	var size, pieces int
	for _, cookie := range u.cookies("/dlq/") {
		require.Less(t, len(cookie.Name)+len(cookie.Value), 4000)
		size += len(cookie.Value)
		pieces++
	}
	require.Equal(t, 2, pieces)
	require.Less(t, size, 12000)
	p.set(func() { p.tokens, p.claims = nil, nil; clear(p.valid) })
	require.Contains(t, u.get("/dlq/me").text, "alice with access")
	require.Len(t, u.cookies("/dlq/"), 1, "pieces of the longer value are removed")

	p.set(func() {
		p.tokens = func(a map[string]any) { a["access_token"] = strings.Repeat(long, 2) }
		p.claims = func(c map[string]any) { delete(c, "at_hash") }
	})
	got := p.site().person().get(begin)
	require.Contains(t, got.text, "longer than the cookies of a browser")
}
