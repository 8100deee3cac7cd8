package console

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/client"
)

// browser opens pages of a console whose API answers what a test says. The pages on the real API are tested in e2e.
type browser struct {
	t       *testing.T
	console *Console
	// api has the answer to each request, such as "GET /path", which is sent as JSON. An apiError is an
	// answer with another status than 200.
	api map[string]any
	// calls are the requests to the API that change something, with their bodies.
	calls   []string
	cookies []*http.Cookie
	headers map[string]string
}

// apiError is an answer of the API that refuses a request.
type apiError struct {
	status        int
	code, message string
}

// unrestricted is a person who may call every route.
var unrestricted = client.Me{Subject: "ops", Routes: []client.Me_Routes{
	{Method: "POST", Path: "/api/v1/plans"}, {Method: "POST", Path: "/api/v1/jobs"}, {Method: "POST", Path: "/api/v1/jobs/:id/pause"},
	{Method: "POST", Path: "/api/v1/jobs/:id/resume"}, {Method: "POST", Path: "/api/v1/jobs/:id/cancel"}, {Method: "PATCH", Path: "/api/v1/jobs/:id"},
	{Method: "POST", Path: "/api/v1/dlq/messages/:id/retry"}, {Method: "POST", Path: "/api/v1/dlq/messages/:id/dead"},
	{Method: "POST", Path: "/api/v1/dlq/messages/:id/revive"}, {Method: "DELETE", Path: "/api/v1/dlq/messages/:id"},
	{Method: "PATCH", Path: "/api/v1/groups/:id"}, {Method: "POST", Path: "/api/v1/groups/:id/fixed"},
	{Method: "POST", Path: "/api/v1/archive/messages/:id/restore"}, {Method: "POST", Path: "/api/v1/archive/runs"}, {Method: "GET", Path: "/api/v1/audit"},
}}

func open(t *testing.T, api map[string]any, change ...func(*Options)) *browser {
	t.Helper()
	b := &browser{t: t, api: map[string]any{"GET /api/v1/me": unrestricted}, headers: map[string]string{}}
	maps.Copy(b.api, api)
	server := httptest.NewServer(http.HandlerFunc(b.answer))
	t.Cleanup(server.Close)
	options := Options{Connect: func(token client.TokenSource) (*client.Client, error) {
		return client.New(server.URL, client.Config{Token: token, Retries: -1})
	}}
	for _, f := range change {
		f(&options)
	}
	var err error
	b.console, err = New(options)
	require.NoError(t, err)
	return b
}

func (b *browser) answer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method != http.MethodGet {
		body, _ := io.ReadAll(r.Body)
		b.calls = append(b.calls, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
	}
	answer, ok := b.api[r.Method+" "+r.URL.Path]
	if !ok {
		answer = apiError{http.StatusNotFound, "ERR_DLQ_NOT_FOUND", "no such thing: " + r.URL.Path}
	}
	if refused, ok := answer.(refusal); ok {
		w.WriteHeader(refused.status)
		answer = map[string]any{"error": map[string]any{"code": refused.code, "message": "refused", "request_id": "req_1", "details": refused.details}}
	}
	if refused, ok := answer.(apiError); ok {
		w.WriteHeader(refused.status)
		answer = map[string]any{"error": map[string]any{"code": refused.code, "message": refused.message, "request_id": "req_1", "details": []any{}}}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// page is an answer of the console.
type page struct {
	*httptest.ResponseRecorder

	text string
}

func (b *browser) send(r *http.Request) page {
	b.t.Helper()
	for _, cookie := range b.cookies {
		r.AddCookie(cookie)
	}
	for name, value := range b.headers {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	b.console.ServeHTTP(w, r)
	b.cookies = append(b.cookies, w.Result().Cookies()...)
	return page{w, w.Body.String()}
}

func (b *browser) get(path string) page {
	b.t.Helper()
	return b.send(httptest.NewRequest(http.MethodGet, path, nil))
}

func (b *browser) post(path string, form url.Values) page {
	b.t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return b.send(r)
}

var noTopics = map[string]any{"GET /api/v1/dlq": client.Topics{Topics: []client.Topics_Topics{}}}

func TestAnUnknownAddressLeadsToTheOverview(t *testing.T) {
	t.Parallel()
	page := open(t, noTopics).get("/nowhere")
	require.Equal(t, http.StatusNotFound, page.Code)
	require.Contains(t, page.text, `<a class="button" href="/">Overview</a>`)
	require.NotContains(t, page.text, "Try again")
}

func TestAPageIsInTheLanguageOfTheBrowser(t *testing.T) {
	t.Parallel()
	b := open(t, noTopics)
	require.Contains(t, b.get("/").text, "No dead letters yet.")
	b.headers["Accept-Language"] = "ja,en;q=0.5"
	require.Contains(t, b.get("/").text, "デッドレターはまだありません。")
	require.Equal(t, "/me", b.post("/preferences", url.Values{"language": {"en"}}).Header().Get("Location"))
	require.Contains(t, b.get("/").text, "No dead letters yet.")
}

func TestWhoeverIsNotSignedInComesToTheFormAndBack(t *testing.T) {
	t.Parallel()
	b := open(t, noTopics, func(o *Options) { o.SignIn = SignInToken })
	require.Equal(t, "/sign-in?next=%2Fme%3Fa%3Db", b.get("/me?a=b").Header().Get("Location"))
	signedIn := b.post("/sign-in", url.Values{"token": {"secret"}, "next": {"/me?a=b"}})
	require.Equal(t, http.StatusSeeOther, signedIn.Code)
	require.Equal(t, "/me?a=b", signedIn.Header().Get("Location"))
	require.NotContains(t, signedIn.Header().Get("Set-Cookie"), "secret")
	require.Equal(t, http.StatusOK, b.get("/me").Code)
}

func TestATokenThatTheServerRefusesIsAskedForAgain(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]any{"GET /api/v1/me": apiError{http.StatusUnauthorized, "SYS_DLQ_UNAUTHENTICATED", "the token is unknown"}},
		func(o *Options) { o.SignIn = SignInToken })
	again := b.post("/sign-in", url.Values{"token": {"wrong"}})
	require.Equal(t, http.StatusUnauthorized, again.Code)
	require.Contains(t, again.text, "the token is unknown")
	require.Empty(t, b.cookies)
}

func TestNoFormLeadsToAnotherServer(t *testing.T) {
	t.Parallel()
	b := open(t, noTopics)
	for _, to := range []string{"https://evil.example/", "//evil.example", `/\evil.example`, "/\t/evil.example", "javascript:alert(1)", "", "/" + strings.Repeat("a", 9<<10)} {
		require.Equal(t, "/me", b.post("/preferences", url.Values{"back": {to}}).Header().Get("Location"), to)
		require.Equal(t, "/", b.get("/sign-in?"+url.Values{"next": {to}}.Encode()).Header().Get("Location"), to)
	}
}

func TestFormsOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	b := open(t, noTopics)
	b.headers["Sec-Fetch-Site"] = "cross-site"
	refused := b.post("/preferences", url.Values{"language": {"ja"}})
	require.Equal(t, http.StatusForbidden, refused.Code)
	require.Contains(t, refused.text, "another web site")
	require.Empty(t, b.cookies)
}

func TestARegionThatHasNotChangedIsNotSentAgain(t *testing.T) {
	t.Parallel()
	b := open(t, noTopics)
	b.headers[regionHeader] = "topics"
	first := b.get("/")
	require.NotContains(t, first.text, "<html")
	require.NotEmpty(t, first.Header().Get("ETag"))
	b.headers["If-None-Match"] = first.Header().Get("ETag")
	again := b.get("/")
	require.Equal(t, http.StatusNotModified, again.Code)
	require.Empty(t, again.text)
}

func TestARegionThatAPageDoesNotHaveIsNotFound(t *testing.T) {
	t.Parallel()
	b := open(t, noTopics)
	for _, region := range []string{"nothing", "../x", "content"} {
		b.headers[regionHeader] = region
		require.Equal(t, http.StatusNotFound, b.get("/").Code, region)
		require.Empty(t, b.get("/").text, region)
	}
}

func TestAnAPIThatIsAwayIsAPageThatSaysSo(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]any{"GET /api/v1/dlq": apiError{http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE", "the database is away"}})
	away := b.get("/")
	require.Equal(t, http.StatusServiceUnavailable, away.Code)
	require.Contains(t, away.text, "the database is away")
	require.Contains(t, away.text, "No message is lost")
}

func TestHostileNamesStayText(t *testing.T) {
	t.Parallel()
	name := `"><script>alert(1)</script>.dlq`
	b := open(t, map[string]any{"GET /api/v1/dlq": client.Topics{Topics: []client.Topics_Topics{{DlqTopic: name}}}})
	require.NotContains(t, b.get("/").text, "<script>alert")
}
