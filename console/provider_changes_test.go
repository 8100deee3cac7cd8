package console

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAProviderThatCallsItselfAnotherEndsNoSessionAndBeginsNone(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	s := p.site()
	u := s.person()
	u.get(begin)
	p.set(func() { p.metadata["issuer"] = "https://evil.example" })
	s.console.provider.mutex.Lock()
	s.console.provider.read = time.Now().Add(-2 * discoverEvery)
	s.console.provider.mutex.Unlock()
	require.Contains(t, u.get("/dlq/me").text, "alice")
	u.dueFor(time.Hour)
	require.Contains(t, u.get("/dlq/me").text, "alice", "its token is valid")
	require.Equal(t, http.StatusBadGateway, s.person().get(begin).status)
	u.dueFor(-time.Second)
	require.Equal(t, http.StatusBadGateway, u.get("/dlq/me").status)
	p.set(func() { p.metadata["issuer"] = p.server.URL })
	require.Contains(t, u.get("/dlq/me").text, "alice", "the session has outlasted it")
}

func TestTwentyTabsThatRenewAtOnceUseARefreshTokenOnce(t *testing.T) {
	t.Parallel()
	p, on, release := newIDP(t), &atomic.Bool{}, make(chan struct{})
	p.late(on, release)
	s := p.site()
	u := s.person()
	u.get(begin)
	p.set(func() { p.valid["access-1"] = false })
	on.Store(true)
	var tabs sync.WaitGroup
	for range 20 {
		tab := u.tab()
		tabs.Go(func() {
			got := tab.get("/dlq/me")
			if got.address.Path != "/dlq/me" || !strings.Contains(got.text, "access-2") {
				t.Errorf("a tab is at %s", got.address)
			}
		})
	}
	close(release)
	tabs.Wait()
	require.Equal(t, 1, p.renewals)
}

// The wall clock of the machine jumps: times in a session seem far away, in either direction.
func TestASessionOutlastsAClockThatJumps(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	u := p.site().person()
	u.get(begin)
	for _, c := range []struct {
		renew, expires, until time.Duration
		path                  string
	}{
		{-time.Hour, -time.Hour, 11 * time.Hour, "/dlq/me"},         // an hour ahead
		{25 * time.Hour, 25 * time.Hour, 36 * time.Hour, "/dlq/me"}, // a day back, while the API does not accept the token any more
		{-24 * time.Hour, -24 * time.Hour, -12 * time.Hour, "/dlq/sign-in"},
	} {
		p.set(func() {
			for token := range p.valid {
				p.valid[token] = false
			}
		})
		before := requestWith(u.cookies("/dlq/"))
		s := u.s.console.readSession(before)
		s.Renew, s.Expires, s.Until = time.Now().Add(c.renew), time.Now().Add(c.expires), time.Now().Add(c.until)
		sealed, err := u.s.console.seal.seal(sessionCookie, s)
		require.NoError(t, err)
		w := httptest.NewRecorder()
		require.True(t, u.s.console.setLongCookie(w, before, sessionCookie, sealed, 3600))
		u.client.Jar.SetCookies(u.at("/dlq/"), w.Result().Cookies())
		require.Equal(t, c.path, u.get("/dlq/me").address.Path)
	}
}

func TestCookiesOfAnotherKeyOrAnotherNameAreNoSession(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	s := p.site()
	u := s.person()
	u.stopAt("/authorize")
	u.get(begin)
	attempt := u.cookies("/dlq/sign-in/")[0].Value
	foreign, err := (&sealer{func() []Key { return []Key{NewKey()} }}).seal(sessionCookie, session{Token: "access-1", Until: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	p.set(func() { p.valid["access-1"] = true })
	for _, value := range []string{"1." + attempt, attempt, "1." + foreign, "9." + foreign, "-1." + foreign, foreign, ".", "1.", "x", "3." + strings.Repeat("A", 3700)} {
		r := httptest.NewRequest(http.MethodGet, "/me", nil)
		r.AddCookie(&http.Cookie{Name: sessionCookie, Value: value})
		w := httptest.NewRecorder()
		s.console.ServeHTTP(w, r)
		require.Equal(t, http.StatusSeeOther, w.Code, value)
		require.Contains(t, w.Header().Get("Location"), "/dlq/sign-in?")
	}
}
