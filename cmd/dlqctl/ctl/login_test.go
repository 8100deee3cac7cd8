package ctl_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zalando/go-keyring"
)

func TestMain(m *testing.M) {
	keyring.MockInit() // the tests do not use the key ring of the person who runs them
	os.Exit(m.Run())
}

// signIn is an API and an identity provider with the same address. Each refresh token is valid once.
type signIn struct {
	run

	url      string
	mutex    sync.Mutex
	metadata string
	device   url.Values
	ended    bool
	pairs    int
	refused  map[string]bool // access tokens that the API no longer accepts
}

func newSignIn(t *testing.T) *signIn {
	t.Helper()
	s := &signIn{run: home(t), refused: map[string]bool{}}
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(server.Close)
	s.url = server.URL
	s.metadata = fmt.Sprintf(`{"resource": %q, "authorization_servers": [%q], "scopes_supported": ["openid"], "bearer_methods_supported": ["header"]}`,
		s.url, s.url+"/id")
	require.Zero(t, s.dlqctl(t, "contexts", "set", "c", "--server", s.url).code)
	return s
}

func (s *signIn) serve(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	_ = r.ParseForm()
	switch r.URL.Path {
	case "/.well-known/oauth-protected-resource":
		if s.metadata == "" {
			fail(http.StatusNotFound, "SYS_DLQ_NOT_FOUND", "no identity provider")(w, r)
			return
		}
		answer(s.metadata)(w, r)
	case "/id/.well-known/openid-configuration":
		answer(fmt.Sprintf(`{"issuer": %q, "device_authorization_endpoint": %q, "token_endpoint": %q, "revocation_endpoint": %q}`,
			s.url+"/id", s.url+"/id/device", s.url+"/id/token", s.url+"/id/revoke"))(w, r)
	case "/id/device":
		s.device = r.PostForm
		answer(`{"device_code": "d", "user_code": "AB\u001bCD", "verification_uri": "https://id.example/page",
			"verification_uri_complete": "https://id.example/page?code\u202e", "expires_in": 60, "interval": 0.001}`)(w, r)
	case "/id/token":
		if r.PostForm.Get("grant_type") == "refresh_token" && (s.ended || r.PostForm.Get("refresh_token") != fmt.Sprintf("refresh-%d", s.pairs)) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error": "invalid_grant", "error_description": "gone"}`)
			return
		}
		s.pairs++
		answer(fmt.Sprintf(`{"access_token": "access-%d", "refresh_token": "refresh-%d", "token_type": "Bearer", "expires_in": 600}`, s.pairs, s.pairs))(w, r)
	case "/id/revoke":
		s.ended = r.PostForm.Get("token") == fmt.Sprintf("refresh-%d", s.pairs)
	case "/api/v1/me":
		token := r.Header.Get("Authorization")
		if token != fmt.Sprintf("Bearer access-%d", s.pairs) || s.refused[token] {
			fail(http.StatusUnauthorized, "SYS_DLQ_UNAUTHENTICATED", "the token has expired")(w, r)
			return
		}
		answer(`{"subject": "olga", "method": "oidc", "grants": [], "routes": []}`)(w, r)
	}
}

func (s *signIn) refuse(token string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.refused["Bearer "+token] = true
}

//nolint:paralleltest // the key ring of the tests is a map without a lock
func TestASignInIsKeptUntilTheSignOut(t *testing.T) {
	for _, where := range []string{"key ring", "file"} {
		t.Run(where, func(t *testing.T) {
			s := newSignIn(t)
			args := []string{"login", "--scope", "openid", "--scope", "offline_access"}
			if where == "file" {
				args = append(args, "--in-file")
			}
			ran := s.dlqctl(t, args...)
			require.Zero(t, ran.code, ran.err)
			require.Contains(t, ran.err, "Open this page in a browser: https://id.example/page\nEnter this code: AB\\u001bCD\n")
			require.Contains(t, ran.err, `https://id.example/page?code\u202e`)
			require.Contains(t, ran.err, "You are olga in the context c.\nYou have no role there")
			require.NotContains(t, ran.err, "access-1")
			require.Equal(t, url.Values{"client_id": {"dlqctl"}, "scope": {"openid offline_access"}}, s.device)

			tokens := s.env["DLQCTL_CONFIG"] + ".c.tokens"
			if where == "file" {
				require.Contains(t, ran.err, "The tokens are kept in "+tokens+", which only you may read.")
				info, err := os.Stat(tokens)
				require.NoError(t, err)
				require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
			} else {
				require.NoFileExists(t, tokens)
			}
			require.Contains(t, s.dlqctl(t, "contexts", "list").out, "OpenID "+s.url+"/id")

			require.Contains(t, s.dlqctl(t, "me").out, "olga")
			s.refuse("access-1")
			require.Contains(t, s.dlqctl(t, "me").out, "olga", "the token is refreshed")
			require.Equal(t, 2, s.pairs)
			require.Contains(t, s.dlqctl(t, "me").out, "olga", "the next process has the new one")
			require.Equal(t, 2, s.pairs)

			require.Zero(t, s.dlqctl(t, "logout").code)
			require.True(t, s.ended)
			require.NoFileExists(t, tokens)
			ran = s.dlqctl(t, "me")
			require.Equal(t, 4, ran.code)
			require.Contains(t, ran.err, "nobody is signed in")
			require.Contains(t, ran.err, `"dlqctl login"`)
		})
	}
}

//nolint:paralleltest // as above
func TestWithoutAKeyRingTheTokensAreKeptInAFile(t *testing.T) {
	s := newSignIn(t)
	keyring.MockInitWithError(errors.New("no bus"))
	defer keyring.MockInit()
	ran := s.dlqctl(t, "login")
	require.Zero(t, ran.code, ran.err)
	require.Contains(t, ran.err, "The key ring of this system cannot be used: no bus\n")
	require.Contains(t, ran.err, "The tokens are kept in ")
	require.Contains(t, s.dlqctl(t, "me").out, "olga")

	path := s.env["DLQCTL_CONFIG"] + ".c.tokens"
	require.NoError(t, os.Chmod(path, 0o644))
	require.Contains(t, s.dlqctl(t, "me").err, "run chmod 600 "+path)
	require.NoError(t, os.Chmod(path, 0o600))
	require.Zero(t, s.dlqctl(t, "contexts", "delete", "c").code)
	require.NoFileExists(t, path)
}

//nolint:paralleltest // as above
func TestARefreshTokenAloneIsEnough(t *testing.T) {
	s := newSignIn(t)
	require.Zero(t, s.dlqctl(t, "login").code)
	require.NoError(t, keyring.Set("dlqctl", s.env["DLQCTL_CONFIG"]+".c.tokens",
		fmt.Sprintf(`{"issuer": %q, "client_id": "dlqctl", "refresh_token": "refresh-1"}`, s.url+"/id")))
	require.Contains(t, s.dlqctl(t, "me").out, "olga")
	require.Equal(t, 2, s.pairs)
}

func TestASignInThatCannotBeginSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		metadata string
		args     []string
		code     int
		says     string
	}{
		"no provider":       {"", nil, 1, "names no identity provider; give --issuer"},
		"another address":   {`{"resource": "https://other.example", "authorization_servers": ["https://id.example"]}`, nil, 1, "calls itself https://other.example"},
		"an insecure one":   {"", []string{"--issuer", "http://id.example"}, 2, "is not a URL with https"},
		"without a context": {"", []string{"--server", "http://127.0.0.1:1"}, 2, "a sign-in belongs to a context"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSignIn(t)
			s.metadata = c.metadata
			ran := s.dlqctl(t, append([]string{"login", "--in-file"}, c.args...)...)
			require.Equal(t, c.code, ran.code, ran.err)
			require.Contains(t, ran.err, c.says)
		})
	}
	s := newSignIn(t)
	require.Contains(t, s.dlqctl(t, "logout").err, `the context "c" is not signed in with dlqctl login`)
}

func TestProgramsThatStartAtOnceShareARefresh(t *testing.T) {
	t.Parallel()
	s := newSignIn(t)
	require.Zero(t, s.dlqctl(t, "login", "--in-file").code)
	s.refuse("access-1")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if ran := s.dlqctl(t, "me"); ran.code != 0 {
				t.Error(ran.err)
			}
		})
	}
	all.Wait()
	require.Equal(t, 2, s.pairs)
	files, err := filepath.Glob(filepath.Join(filepath.Dir(s.env["DLQCTL_CONFIG"]), ".next-*"))
	require.NoError(t, err)
	require.Empty(t, files)
}
