//go:build keycloak

package e2e

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
)

// operatorSignsInWithDlqctl goes the whole way: the API names Keycloak, dlqctl shows a code, a browser confirms the code. Access
// tokens of this client live for four seconds, and each refresh token is valid once.
func (g *guarded) operatorSignsInWithDlqctl() {
	t := g.t
	config := filepath.Join(t.TempDir(), "config.yaml")
	dlqctl := func(args ...string) *exec.Cmd {
		command := exec.CommandContext(t.Context(), filepath.Join(programs, "dlqctl"), args...)
		command.Env = append(os.Environ(), "DLQCTL_CONFIG="+config, "DLQ_URL=")
		return command
	}
	output, err := dlqctl("contexts", "set", "test", "--server", g.base).CombinedOutput()
	require.NoError(t, err, "%s", output)

	said := &lockedBuffer{}
	login := dlqctl("login", "--in-file")
	login.Stderr = said
	require.NoError(t, login.Start())
	page := regexp.MustCompile(`This page has the code already: (\S+)`)
	g.eventually("dlqctl shows the page", func() bool { return page.MatchString(said.tail(1 << 20)) })
	g.keycloak.confirm(page.FindStringSubmatch(said.tail(1 << 20))[1], "olga")
	require.NoError(t, login.Wait(), "%s", said.tail(1<<20))
	require.Contains(t, said.tail(1<<20), "You are 11111111-1111-4111-8111-111111111111 in the context test.")

	kept := func() (tokens struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}) {
		content, err := os.ReadFile(config + ".test.tokens")
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(content, &tokens))
		return tokens
	}
	first := kept()
	require.Eventually(t, func() bool { return !g.accepted(first.Access) }, 15*time.Second, 100*time.Millisecond, "the token expires")
	var all sync.WaitGroup
	for range 4 { // programs that refresh at once
		all.Go(func() {
			output, err := dlqctl("me").CombinedOutput()
			if err != nil || !strings.Contains(string(output), "11111111-1111-4111-8111-111111111111") {
				t.Errorf("%v: %s", err, output)
			}
		})
	}
	all.Wait()
	last := kept()
	require.NotEqual(t, first, last)

	output, err = dlqctl("logout").CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.NoFileExists(t, config+".test.tokens")
	output, err = dlqctl("me").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(output), "nobody is signed in")
	response, err := http.PostForm(g.keycloak.issuer("ops")+"/protocol/openid-connect/token",
		url.Values{"grant_type": {"refresh_token"}, "client_id": {"dlqctl"}, "refresh_token": {last.Refresh}})
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusBadRequest, response.StatusCode, "the session has ended")
}

// confirm acts as a person in a browser, who signs in on a page of Keycloak and grants the access that it asks for.
func (k *keycloak) confirm(page, user string) {
	k.t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(k.t, err)
	browser := &http.Client{Jar: jar}
	response, err := browser.Get(page)
	require.NoError(k.t, err)
	for _, form := range []url.Values{{"username": {user}, "password": {user}}, {"accept": {"Yes"}}} {
		response = k.fill(browser, response, form)
	}
	require.NoError(k.t, response.Body.Close())
	require.Equal(k.t, http.StatusOK, response.StatusCode, fmt.Sprint(response.Request.URL))
}

// fill sends the form of a page of Keycloak.
func (k *keycloak) fill(browser *http.Client, page *http.Response, form url.Values) *http.Response {
	k.t.Helper()
	shown, err := io.ReadAll(page.Body)
	require.NoError(k.t, err)
	require.NoError(k.t, page.Body.Close())
	action := regexp.MustCompile(`<form[^>]* action="([^"]+)"`).FindSubmatch(shown)
	require.NotNil(k.t, action, "%s", shown)
	for _, hidden := range regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`).FindAllSubmatch(shown, -1) {
		form.Set(string(hidden[1]), html.UnescapeString(string(hidden[2])))
	}
	to, err := page.Request.URL.Parse(html.UnescapeString(string(action[1])))
	require.NoError(k.t, err)
	response, err := browser.PostForm(to.String(), form)
	require.NoError(k.t, err)
	return response
}
