//go:build keycloak

package e2e

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
)

const olga = "11111111-1111-4111-8111-111111111111"

// visitor is a browser with cookies of its own, without a script.
type visitor struct {
	g *guarded
	*http.Client

	// callback is the address of the last redirect from Keycloak with a code.
	callback string
}

func (g *guarded) visitor() *visitor {
	jar, err := cookiejar.New(nil)
	require.NoError(g.t, err)
	r := &visitor{g: g, Client: &http.Client{Jar: jar}}
	r.CheckRedirect = func(next *http.Request, _ []*http.Request) error {
		if next.URL.Path == "/sign-in/callback" && next.URL.Query().Has("code") {
			r.callback = next.URL.String()
		}
		return nil
	}
	return r
}

// open follows redirects from an address. It returns the address, the status and the text of the last page.
func (r *visitor) open(address string) (at *url.URL, status int, text string) {
	return r.read(r.Get(r.g.base + address))
}

func (r *visitor) read(response *http.Response, err error) (at *url.URL, status int, text string) {
	require.NoError(r.g.t, err)
	content, err := io.ReadAll(response.Body)
	require.NoError(r.g.t, err)
	require.NoError(r.g.t, response.Body.Close())
	return response.Request.URL, response.StatusCode, string(content)
}

// signIn signs in on Keycloak's form.
func (r *visitor) signIn(next string) {
	t := r.g.t
	page, err := r.Get(r.g.base + "/sign-in/openid?" + url.Values{"next": {next}}.Encode())
	require.NoError(t, err)
	shown := r.g.keycloak.fill(r.Client, page, url.Values{"username": {"olga"}, "password": {"olga"}})
	defer func() { _ = shown.Body.Close() }()
	at, status, text := r.read(shown, nil)
	require.Equal(t, next, at.RequestURI(), text)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, olga)
}

func (r *visitor) cookies() []*http.Cookie {
	at, err := url.Parse(r.g.base)
	require.NoError(r.g.t, err)
	return r.Jar.Cookies(at)
}

// tab returns another visitor with the current cookies of this visitor.
func (r *visitor) tab() *visitor {
	at, err := url.Parse(r.g.base)
	require.NoError(r.g.t, err)
	tab := r.g.visitor()
	tab.Jar.SetCookies(at, r.cookies())
	return tab
}

// operatorUsesThePages signs in on Keycloak's form and out again. Access tokens of the client live for four seconds, and each
// refresh token is valid once.
func (g *guarded) operatorUsesThePages() {
	t := g.t
	r := g.visitor()
	at, _, text := r.open("/me?a=b")
	require.Equal(t, "/sign-in", at.Path)
	require.Contains(t, text, "/sign-in/openid?next=%2Fme%3Fa%3Db")
	r.signIn("/me?a=b")
	for _, cookie := range r.cookies() {
		require.NotContains(t, cookie.Value, "eyJ", "no token lies in the open")
	}
	g.answersAreForOneBrowserOnce(r) // Keycloak ends a session if its code is used twice
	r = g.visitor()
	r.signIn("/me")

	time.Sleep(5 * time.Second) // the token expires
	var tabs sync.WaitGroup
	all := make([]*visitor, 20)
	for i := range all {
		all[i] = r.tab()
		tabs.Go(func() {
			response, err := all[i].Get(g.base + "/me")
			if err != nil {
				t.Error(err)
				return
			}
			_ = response.Body.Close()
			if response.Request.URL.Path != "/me" || response.StatusCode != http.StatusOK {
				t.Errorf("a tab is at %s with %s", response.Request.URL.Path, response.Status)
			}
		})
	}
	tabs.Wait()
	require.NotEqual(t, r.cookies(), all[0].cookies(), "the tokens are others")
	r = all[0]

	g.keycloak.admin(http.MethodPost, "users/"+olga+"/logout", nil, nil)
	time.Sleep(5 * time.Second) // the token expires
	id := g.anyMessage()
	_, status, text := r.read(r.PostForm(g.base+"/messages/"+id+"/edit", url.Values{"value": {"a long text"}, "action": {"review"}}))
	require.Contains(t, text, "a long text", "it is kept: %d", status)
	require.Contains(t, text, "Your session is over")
	at, _, _ = r.open("/me")
	require.Equal(t, "/sign-in", at.Path)

	r.signIn("/me")
	before := r.tab()
	_, status, text = r.read(r.PostForm(g.base+"/sign-out", nil))
	require.Equal(t, http.StatusOK, status)
	for _, cookie := range r.cookies() {
		require.NotContains(t, cookie.Name, "session")
	}
	end := regexp.MustCompile(`href="(http[^"]*/logout\?[^"]*)"`).FindStringSubmatch(text)
	require.NotNil(t, end, text)
	at, _, text = r.read(r.Get(strings.ReplaceAll(end[1], "&amp;", "&")))
	require.Equal(t, g.base+"/sign-in", at.String(), text)
	at, _, _ = r.open("/sign-in/openid")
	require.Equal(t, g.keycloak.address, at.Host, "Keycloak asks again who it is")
	time.Sleep(5 * time.Second) // the last token expires
	at, _, _ = before.open("/me")
	require.Equal(t, "/sign-in", at.Path, "a copy of the cookie ends with its token")
}

// answersAreForOneBrowserOnce opens Keycloak's redirect again, in the same browser and in other browsers.
func (g *guarded) answersAreForOneBrowserOnce(r *visitor) {
	stranger, victim := g.visitor(), g.visitor()
	_, _, _ = victim.open("/sign-in/openid") // the victim has begun a sign-in of its own
	for _, other := range []*visitor{r.tab(), stranger, victim} {
		_, status, text := other.read(other.Get(r.callback))
		require.Equal(g.t, http.StatusUnauthorized, status)
		require.Contains(g.t, text, "begun in another browser")
	}
	answer, err := url.Parse(r.callback)
	require.NoError(g.t, err)
	query := answer.Query()
	query.Set("state", victim.state())
	_, status, text := victim.read(victim.Get(g.base + "/sign-in/callback?" + query.Encode()))
	require.Equal(g.t, http.StatusBadGateway, status, "the code of another attempt, with the own state")
	require.Contains(g.t, text, "invalid_grant")
}

// state begins a sign-in and returns its parameter state.
func (r *visitor) state() string {
	at, _, _ := r.open("/sign-in/openid")
	return at.Query().Get("state")
}

func (g *guarded) anyMessage() string {
	_, answer := g.as(g.keycloak.robot(), http.MethodGet, "/api/v1/dlq/"+g.dlqTopic)
	return answer["messages"].([]any)[0].(map[string]any)["id"].(string)
}
