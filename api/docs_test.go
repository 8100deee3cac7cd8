package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"dlqmanager/api"
)

func TestTheSpecificationIsServedAsJSON(t *testing.T) {
	t.Parallel()
	got := start(t).call(http.MethodGet, "/openapi.json")
	require.Equal(t, http.StatusOK, got.status)
	require.True(t, strings.HasPrefix(got.body, `{"openapi":"3.1.0","info":{"title":`), "the order of the file")
	var served, written any
	require.NoError(t, json.Unmarshal([]byte(got.body), &served))
	content, err := os.ReadFile("openapi.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(content, &written))
	same, err := json.Marshal(written)
	require.NoError(t, err)
	require.JSONEq(t, string(same), got.body)
}

func TestDocsNeedNoOtherHost(t *testing.T) {
	t.Parallel()
	w := start(t)
	got := w.call(http.MethodGet, "/docs")
	require.Equal(t, http.StatusOK, got.status)
	_, script := w.send(http.MethodGet, "/docs/page.js", nil)
	require.Contains(t, script.body, `"openapi.json"`)
	require.NotContains(t, got.header.Get("Content-Security-Policy"), "unsafe")
	links := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(got.body, -1)
	require.Greater(t, len(links), 3)
	for _, link := range links {
		require.True(t, strings.HasPrefix(link[1], "docs/"), "%s is elsewhere", link[1])
		_, file := w.send(http.MethodGet, "/"+link[1], nil)
		require.Equal(t, http.StatusOK, file.status, link[1])
		require.NotEmpty(t, file.body)
	}
	_, missing := w.send(http.MethodGet, "/docs/nothing.js", nil)
	require.Equal(t, http.StatusNotFound, missing.status)
}

func TestDocsHaveTheLinksOfTheConsole(t *testing.T) {
	t.Parallel()
	_, with := withPages("/console", http.MethodGet, "/api/v1/me")
	w := start(t, with, func(o *api.Options) {
		o.Console.Links = []api.PageLink{{Path: "/", Text: "Start"}, {Path: "/jobs", Text: "<Jobs>"}}
	})
	_, page := w.send(http.MethodGet, "/docs", nil)
	require.Contains(t, page.body, `<a href="./console/">Start</a>`)
	require.Contains(t, page.body, `<a href="./console/jobs">&lt;Jobs&gt;</a>`)
	_, plain := start(t).send(http.MethodGet, "/docs", nil)
	require.NotContains(t, plain.body, "<nav")
}

func TestDocsWorkBelowThePathOfAProxy(t *testing.T) {
	t.Parallel()
	_, with := withPages("/console", http.MethodGet, "/api/v1/me")
	w := start(t, with)
	proxy := httptest.NewServer(http.StripPrefix("/dlq", httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: w.address})))
	t.Cleanup(proxy.Close)
	get := func(address string) (at *url.URL, status int, page string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
		require.NoError(t, err)
		answer, err := w.client.Do(request)
		require.NoError(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.Request.URL, answer.StatusCode, string(body)
	}
	at, _, page := get(proxy.URL + "/dlq/docs/")
	require.Equal(t, "/dlq/docs", at.Path)
	links := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(page, -1)
	require.Greater(t, len(links), 5)
	for _, link := range append(links, []string{"", "openapi.json"}) {
		to, err := at.Parse(link[1])
		require.NoError(t, err)
		if rest, isPage := strings.CutPrefix(to.Path, "/dlq/console/"); isPage {
			require.NotContains(t, rest, "/")
			continue
		}
		_, status, _ := get(to.String())
		require.Equal(t, http.StatusOK, status, to.Path)
	}
}
