package ctl_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// visitor is a browser that visits the pages.
type visitor struct {
	t      *testing.T
	client *http.Client
}

func newVisitor(t *testing.T) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &visitor{t, &http.Client{Jar: jar, Timeout: 10 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}
}

func (v *visitor) send(method, address string, change ...func(*http.Request)) (status int, text, location string) {
	v.t.Helper()
	request, err := http.NewRequestWithContext(v.t.Context(), method, address, http.NoBody)
	require.NoError(v.t, err)
	for _, f := range change {
		f(request)
	}
	answer, err := v.client.Do(request)
	require.NoError(v.t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(v.t, err)
	return answer.StatusCode, string(body), answer.Header.Get("Location")
}

// browse runs dlqctl console with a context, visits its pages, and ends the command with Ctrl-C.
func browse(t *testing.T, s run, visit func(link, base string)) result {
	t.Helper()
	s.interrupts = make(chan os.Signal, 1)
	s.wait = func(out *output) {
		defer func() { s.interrupts <- os.Interrupt }()
		require.Eventually(t, func() bool { return strings.Contains(out.String(), "\n") }, 10*time.Second, time.Millisecond)
		link := strings.TrimSpace(out.String())
		base, _, found := strings.Cut(link, "/sign-in/link/")
		require.True(t, found, link)
		visit(link, base)
	}
	return s.dlqctl(t, "console")
}

func TestTheConsoleLetsInWhoeverFollowsTheLinkFirst(t *testing.T) {
	t.Parallel()
	var asked []string
	s := server(t, map[string]http.HandlerFunc{"GET /api/v1/me": func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Authorization"))
		answer(`{"subject": "alice", "method": "token", "grants": [], "routes": []}`)(w, r)
	}})
	config := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(config, []byte("current: eu\ncontexts:\n  eu: {server: '"+s.env["DLQ_URL"]+"', token: my-token, production: true}\n"), 0o600))
	ended := browse(t, run{env: map[string]string{"DLQCTL_CONFIG": config}}, func(link, base string) {
		me, other := newVisitor(t), newVisitor(t)
		status, text, _ := other.send(http.MethodGet, base+"/sign-in")
		require.Equal(t, http.StatusForbidden, status)
		require.Contains(t, text, "dlqctl console")
		_, _, to := other.send(http.MethodGet, base+"/me")
		require.Contains(t, to, "/sign-in?")

		status, _, _ = me.send(http.MethodGet, link)
		require.Equal(t, http.StatusSeeOther, status)
		status, text, _ = me.send(http.MethodGet, base+"/me")
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, text, "alice")
		require.Contains(t, text, "<bdi>eu</bdi>")
		require.Contains(t, text, "production")
		at, err := url.Parse(base)
		require.NoError(t, err)
		root := *at
		root.Path = "/"
		require.NotEmpty(t, me.client.Jar.Cookies(at.JoinPath("me")))
		require.Empty(t, me.client.Jar.Cookies(&root), "other ports of this machine get no cookie")

		_, _, to = other.send(http.MethodGet, link)
		require.True(t, strings.HasSuffix(to, "/sign-in"), to)
		_, _, to = other.send(http.MethodGet, base+"/me")
		require.Contains(t, to, "/sign-in?", "the link works once")

		status, _, _ = me.send(http.MethodGet, base+"/me", func(r *http.Request) { r.Host = "localhost:" + at.Port() })
		require.Equal(t, http.StatusForbidden, status, "another name")
		status, _, _ = me.send(http.MethodGet, "http://"+at.Host+"/me")
		require.Equal(t, http.StatusNotFound, status)
		status, _, _ = me.send(http.MethodPost, base+"/preferences", func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") })
		require.Equal(t, http.StatusForbidden, status, "a form of another port")
	})
	require.Zero(t, ended.code, ended.err)
	require.Contains(t, ended.err, "The pages show eu")
	require.Len(t, asked, 2, "before the start, and for the page")
	require.Equal(t, "Bearer my-token", asked[1])
}

func TestTheConsoleSaysThatTheSignInHasEnded(t *testing.T) {
	t.Parallel()
	isOver := false
	s := server(t, map[string]http.HandlerFunc{"GET /api/v1/me": func(w http.ResponseWriter, r *http.Request) {
		if isOver {
			fail(http.StatusUnauthorized, "SYS_DLQ_UNAUTHENTICATED", "the token has expired")(w, r)
			return
		}
		answer(`{"subject": "alice", "method": "token", "grants": [], "routes": []}`)(w, r)
	}})
	require.Zero(t, browse(t, s, func(link, base string) {
		me := newVisitor(t)
		me.send(http.MethodGet, link)
		isOver = true
		status, text, _ := me.send(http.MethodGet, base+"/me")
		require.Equal(t, http.StatusUnauthorized, status)
		require.Contains(t, text, "the token has expired")
	}).code)
	refused := s.dlqctl(t, "console")
	require.Equal(t, 4, refused.code, "before anything is served")
	require.Empty(t, refused.out)
}
