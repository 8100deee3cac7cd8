package console

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"dlqmanager/client"
)

func TestEverythingIsBelowTheBasePath(t *testing.T) {
	t.Parallel()
	b := open(t, noTopics, func(o *Options) { o.Base, o.SignIn, o.Secure, o.Docs = "/dlq/console", SignInToken, true, "/dlq/docs" })
	signedIn := b.post("/sign-in", url.Values{"token": {"secret"}, "next": {"/me"}})
	require.Equal(t, "/dlq/console/me", signedIn.Header().Get("Location"))
	for _, cookie := range signedIn.Result().Cookies() {
		require.Equal(t, "/dlq/console", cookie.Path)
		require.True(t, strings.HasPrefix(cookie.Name, "__Secure-"), cookie.Name)
		require.True(t, cookie.HttpOnly && cookie.Secure)
		require.Equal(t, http.SameSiteLaxMode, cookie.SameSite)
	}
	addresses := regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)
	for _, path := range []string{"/", "/me", "/sign-in", "/nowhere"} {
		got := b.get(path)
		found := addresses.FindAllStringSubmatch(got.text, -1)
		require.Greater(t, len(found), 4, path)
		for _, address := range found {
			to := address[1]
			require.True(t, strings.HasPrefix(to, "/dlq/console/") || to == "#main" || to == "/dlq/docs", "%s: %s", path, to)
			if asset, ok := strings.CutPrefix(to, "/dlq/console/assets/"); ok {
				require.Equal(t, http.StatusOK, b.get("/assets/"+asset).Code)
			}
		}
	}
	for _, cookie := range b.post("/preferences", url.Values{"theme": {"dark"}}).Result().Cookies() {
		require.Equal(t, "/dlq/console", cookie.Path)
	}
	require.Equal(t, "/dlq/console/sign-in", b.post("/sign-out", nil).Header().Get("Location"))
	root := httptest.NewRequest(http.MethodGet, "/", nil)
	root.URL.Path = "" // the path of a request for /dlq/console after the prefix was removed
	require.Equal(t, "/dlq/console/", b.send(root).Header().Get("Location"))
}

func TestCookiesOfAWholeHostBelongToItAlone(t *testing.T) {
	t.Parallel()
	b := open(t, noTopics, func(o *Options) { o.SignIn, o.Secure = SignInToken, true })
	cookie := b.post("/sign-in", url.Values{"token": {"secret"}}).Result().Cookies()[0]
	require.Equal(t, "__Host-dlq-session", cookie.Name)
	require.Equal(t, "/", cookie.Path)
}

func TestPathsThatAreWrittenOddlyLeadNowhereElse(t *testing.T) {
	t.Parallel()
	b := open(t, noTopics, func(o *Options) { o.Base = "/dlq" })
	for _, path := range []string{"/topics//x", "//evil.example/", "/topics/../me"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path = path
		got := b.send(r)
		require.Equal(t, http.StatusNotFound, got.Code, path)
		require.Empty(t, got.Header().Get("Location"), path)
	}
}

func TestALinkWorksOnce(t *testing.T) {
	t.Parallel()
	b := open(t, noTopics, func(o *Options) {
		o.SignIn, o.Link, o.Name, o.Production = SignInLink, "the-secret", `eu<b>`, true
	})
	require.Equal(t, "/sign-in?next=%2F", b.get("/").Header().Get("Location"))
	form := b.get("/sign-in")
	require.Equal(t, http.StatusForbidden, form.Code)
	require.Contains(t, form.text, "dlqctl console")
	require.NotContains(t, form.text, `name="token"`)
	require.NotContains(t, form.text, "eu&lt;")
	require.Equal(t, "/sign-in", b.post("/sign-in", url.Values{"token": {"secret"}}).Header().Get("Location"))
	require.Equal(t, "/sign-in", b.get("/sign-in/link/wrong").Header().Get("Location"))
	b.headers["Sec-Purpose"] = "prefetch"
	require.Equal(t, http.StatusNoContent, b.get("/sign-in/link/the-secret").Code)
	delete(b.headers, "Sec-Purpose")
	require.Equal(t, http.StatusNoContent, b.send(httptest.NewRequest(http.MethodHead, "/sign-in/link/the-secret", nil)).Code)
	require.Empty(t, b.cookies)

	require.Equal(t, "/", b.get("/sign-in/link/the-secret").Header().Get("Location"))
	page := b.get("/")
	require.Equal(t, http.StatusOK, page.Code)
	require.Contains(t, page.text, "eu&lt;b&gt;")
	require.Contains(t, page.text, "production")
	require.NotContains(t, page.text, "/sign-out")
	other := &browser{t: t, console: b.console, headers: map[string]string{}}
	require.Equal(t, "/sign-in", other.get("/sign-in/link/the-secret").Header().Get("Location"))
	require.Empty(t, other.cookies)
	require.Equal(t, "/", b.get("/sign-in").Header().Get("Location"), "whoever is in goes on")

	b.api["GET /api/v1/me"] = apiError{http.StatusUnauthorized, "SYS_DLQ_UNAUTHENTICATED", "the token has expired"}
	ended := b.get("/")
	require.Equal(t, http.StatusUnauthorized, ended.Code)
	require.Contains(t, ended.text, "the token has expired")
}

func TestAPanicIsAPageAndInTheLog(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.ErrorLevel)
	b := open(t, noTopics, func(o *Options) { o.Logger = zap.New(core) })
	for _, page := range []handler{
		func(*visit) (*answer, error) { panic("in the page") },
		func(v *visit) (*answer, error) {
			return nil, v.together(func(context.Context) error { panic("in a goroutine of the page") })
		},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Request-Id", "req_7")
		b.console.visited(page).ServeHTTP(w, r)
		require.Equal(t, http.StatusInternalServerError, w.Code)
		require.Contains(t, w.Body.String(), "req_7")
		require.NotContains(t, w.Body.String(), "in the page")
	}
	entries := logs.FilterMessage("panic in a page").All()
	require.Len(t, entries, 2)
	require.Equal(t, "in a goroutine of the page", entries[1].ContextMap()["panic"])
	require.Contains(t, entries[0].ContextMap()["stack"], "paths_test.go")
}

func TestAnOptionThatIsMissingIsNamed(t *testing.T) {
	t.Parallel()
	connect := func(client.TokenSource) (*client.Client, error) { return nil, nil } //nolint:nilnil // nobody calls it
	for says, o := range map[string]Options{
		"Connect is required":             {},
		"SignInLink needs a Link":         {Connect: connect, SignIn: SignInLink},
		"SignInProvider needs a Provider": {Connect: connect, SignIn: SignInProvider},
	} {
		_, err := New(o)
		require.ErrorContains(t, err, says)
	}
}
