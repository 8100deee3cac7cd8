package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
)

// pages is a console with one page, which sends a request to the API. Other paths have special behaviour.
type pages struct {
	api            http.RoundTripper
	method, target string
	entered, goOn  chan struct{} // for the page /topics
}

func (p *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", "of the page")
	switch r.URL.Path {
	case "/me", "/other":
		fmt.Fprint(w, r.URL.Path)
		return
	case "/topics":
		close(p.entered)
		<-p.goOn
	}
	request, err := http.NewRequestWithContext(r.Context(), p.method, "http://localhost"+p.target, http.NoBody)
	if err != nil {
		panic(err)
	}
	request.Header.Set("Authorization", r.Header.Get("Authorization"))
	answer, err := p.api.RoundTrip(request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body)
}

// withPages serves a console at a path. All its pages send this request to the API.
func withPages(path, method, target string) (*pages, func(*api.Options)) {
	p := &pages{method: method, target: target, entered: make(chan struct{}), goOn: make(chan struct{})}
	return p, func(o *api.Options) {
		o.Console = &api.Console{Pages: p, Path: path, Roots: []string{"me", "topics"}, Links: []api.PageLink{{Path: "/", Text: "Overview"}, {Path: "/jobs", Text: "Jobs"}}}
	}
}

func TestThePagesAreBesideTheAPI(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "/console"} {
		p, with := withPages(path, http.MethodGet, "/api/v1/me")
		w := start(t, with)
		p.api = w.server.InMemory()
		_, root := w.send(http.MethodGet, path+"/", nil)
		require.Equal(t, http.StatusOK, root.status, root.body)
		require.Contains(t, root.body, `"subject":"anonymous"`)
		require.Equal(t, []string{"of the page"}, root.header.Values("Content-Security-Policy"))
		_, me := w.send(http.MethodGet, path+"/me", nil)
		require.Equal(t, "/me", me.body, "without the path of the console")
		_, head := w.send(http.MethodHead, path+"/me", nil)
		require.Equal(t, http.StatusOK, head.status)
		require.Empty(t, head.body)
		_, put := w.send(http.MethodPut, path+"/me", nil)
		require.Equal(t, http.StatusMethodNotAllowed, put.status)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.address+path+"/me", http.NoBody)
		require.NoError(t, err)
		request.Host = "evil.example"
		foreign, err := w.do(request)
		require.NoError(t, err)
		requireError(t, foreign, http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
		_, other := w.send(http.MethodGet, path+"/other", nil)
		if path == "" {
			requireError(t, other, http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
			_, page := w.send(http.MethodGet, "/other", nil, "Accept: text/html,application/xhtml+xml,*/*;q=0.8")
			require.Equal(t, "/other", page.body, "the console says so to a person")
			require.Equal(t, []string{"of the page"}, page.header.Values("Content-Security-Policy"))
			for _, call := range [][2]string{{"GET", "/api/v1/other"}, {"POST", "/other"}} {
				_, unknown := w.send(call[0], call[1], nil, "Accept: text/html")
				requireError(t, unknown, http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
			}
			_, put := w.send(http.MethodGet, "/api/v1/plans", nil, "Accept: text/html")
			require.Equal(t, http.StatusMethodNotAllowed, put.status)
		} else {
			require.Equal(t, "/other", other.body, "the console says that there is no such page")
			_, beside := w.send(http.MethodGet, "/other", nil, "Accept: text/html")
			requireError(t, beside, http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
		}
		metrics := w.call(http.MethodGet, "/metrics").body
		require.Contains(t, metrics, fmt.Sprintf(`dlq_http_requests_total{method="GET",route="%s/",status="200"} 1`, path))
		require.Contains(t, metrics, fmt.Sprintf(`dlq_http_requests_total{method="HEAD",route="%s/me",status="200"} 1`, path))
	}
}

func TestWithoutAConsoleItsPathsAreUnknown(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, path := range []string{"/", "/me", "/console/"} {
		_, unknown := w.send(http.MethodGet, path, nil)
		requireError(t, unknown, http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
	}
}

func TestAuditAndLogNameTheBrowserOfAPage(t *testing.T) {
	t.Parallel()
	p, with := withPages("", http.MethodPost, "/api/v1/dlq/messages/"+someID+"/dead")
	w := startWithTokens(t, with, func(o *api.Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} })
	p.api = w.server.InMemory()
	_, got := w.send(http.MethodGet, "/", nil, bearer("viewer"), "X-Forwarded-For: 192.0.2.7", "X-Request-Id: of-the-page")
	require.Equal(t, http.StatusForbidden, got.status, got.body)
	var list struct {
		Operations []struct {
			Address   string `json:"address"`
			RequestID string `json:"request_id"`
		} `json:"operations"`
	}
	audit := w.call(http.MethodGet, "/api/v1/audit", bearer("admin"))
	require.NoError(t, json.Unmarshal([]byte(audit.body), &list))
	require.Len(t, list.Operations, 1, audit.body)
	require.Equal(t, "192.0.2.7", list.Operations[0].Address)
	require.Equal(t, "of-the-page", list.Operations[0].RequestID)
	var routes []any
	for _, entry := range w.logs.FilterMessage("request").All() {
		if fields := entry.ContextMap(); fields["request_id"] == "of-the-page" {
			routes = append(routes, fields["route"])
		}
	}
	require.Equal(t, []any{"/api/v1/dlq/messages/:id/dead", "/"}, routes)
}

func TestABrowserHasTheLimitsOfTheAPI(t *testing.T) {
	t.Parallel()
	p, with := withPages("", http.MethodGet, "/api/v1/me")
	w := start(t, with, func(o *api.Options) {
		o.RateLimit = 1
		o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	})
	p.api = w.server.InMemory()
	from := func(address string) int {
		_, got := w.send(http.MethodGet, "/", nil, "X-Forwarded-For: "+address)
		return got.status
	}
	for from("192.0.2.7") == http.StatusOK {
	}
	require.Equal(t, http.StatusOK, from("192.0.2.8"), "another browser")
}

func TestAPageThatIsBeingMadeReachesTheAPIDuringAShutdown(t *testing.T) {
	t.Parallel()
	p, with := withPages("", http.MethodGet, "/api/v1/me")
	w := start(t, with)
	server := w.server
	p.api = server.InMemory()
	answered := make(chan response, 1)
	go func() {
		_, got := w.send(http.MethodGet, "/topics", nil)
		answered <- got
	}()
	<-p.entered
	stopped := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	go func() { stopped <- server.Shutdown(ctx) }()
	require.Eventually(t, func() bool {
		connection, err := net.Dial("tcp", w.address)
		if err == nil {
			_ = connection.Close()
		}
		return err != nil
	}, 10*time.Second, time.Millisecond, "the network is closed")
	close(p.goOn)
	got := <-answered
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.NoError(t, <-stopped)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/api/v1/me", nil)
	_, err := p.api.RoundTrip(request) //nolint:bodyclose // there is no answer
	require.ErrorContains(t, err, "closed")
}
