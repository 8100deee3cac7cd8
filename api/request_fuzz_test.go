package api_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
)

// FuzzRequest searches for a request whose answer the specification does not allow.
func FuzzRequest(f *testing.F) {
	for _, seed := range [][5]string{
		{"GET", "/api/v1/dlq", "", "", ""},
		{"GET", "/api/v1/dlq/orders.dlq.v1?page_size=1&status=DEAD,PENDING&key=%00", "", "req_1", ""},
		{"GET", "/api/v1/dlq/" + strings.Repeat("a", 250), "", strings.Repeat("a", 129), ""},
		{"GET", "/api/v1/dlq/messages/" + someID, "", "a\tb", ""},
		{"DELETE", "/api/v1/dlq/messages/" + someID + "%00", "", "", "{}"},
		{"POST", "/api/v1/dlq/messages/" + someID + "/retry", "wait=" + strings.Repeat("9", 400), "", ""},
		{"POST", "/api/v1/dlq/messages/" + someID + "/dead?x", "", "", "null"},
		{"POST", retryAllPath, `respond-async, wait="0"`, "", "[]"},
		{"POST", plansPath, "respond-async", "", `{"kind":"retry","topic":"orders.dlq.v1","error":"\ud800"}`},
		{"POST", jobsPath, "", "", `{"kind":"retry","topic":"orders.dlq.v1","rate_limit":1e400,"ids":[` + strings.Repeat("[", 10_000) + `]}`},
		{"PATCH", jobsPath + "/" + someID, "", "", `{"rate_limit":1,"rate_limit":2}`},
		{"PUT", jobsPath + "/" + someID + "/pause", "", "", "\xff"},
		{"GET", groupsPath + "?sort=last_seen&state=held&cursor=Y4ydUwAGSz7nPzoAXyscnnpBjT-cDktqLY4fcA", "", "", ""},
		{"PATCH", groupsPath + "/" + someID, "", "", `{"state":"held","until":{"at":"9999-12-31T23:59:59Z","count":1e400,"rate":[]}}`},
		{"POST", groupsPath + "/" + someID + "/fixed", "", "", `{"ticket":"https://\ud800"}`},
		{"BREW", "/healthz", "", "", ""},
		{"OPTIONS", "/api/v1/dlq/a%2fb/retry-all", "", "", ""},
		{"HEAD", "/readyz?%", "", "", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4])
	}
	w := start(f, func(o *api.Options) { o.RetryWait, o.MaxWait = -1, time.Nanosecond })
	id, err := dlq.ParseID(someID)
	require.NoError(f, err)
	w.add(1, func(a *dlq.Arrival) { a.ID = id })
	w.add(3)
	f.Fuzz(func(t *testing.T, method, target, prefer, requestID, body string) {
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+w.address+target, strings.NewReader(body))
		if err != nil || request.URL.Host != w.address || method == http.MethodConnect || body != "" && method == http.MethodHead {
			return // the client would send another request
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Prefer", prefer)
		requestID = "r" + requestID // the validator would read digits as a number
		request.Header.Set("X-Request-Id", requestID)
		got, err := w.do(request)
		if err != nil {
			return // the client refuses a header
		}
		require.NotEqual(t, http.StatusInternalServerError, got.status, got.body)
		if regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`).MatchString(requestID) {
			require.Equal(t, requestID, got.header.Get("X-Request-Id"))
		}
		require.True(t, utf8.ValidString(got.body), got.body)
		switch {
		case method == http.MethodHead, method == http.MethodOptions, strings.HasPrefix(request.URL.Path, "/docs/"): // no body, or a file
		case strings.Contains(got.body, `"no such route"`):
			requireError(t, got, http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
		case got.status == http.StatusMethodNotAllowed:
			requireError(t, got, http.StatusMethodNotAllowed, "SYS_DLQ_METHOD_NOT_ALLOWED")
			require.NotEmpty(t, got.header.Get("Allow"))
		default:
			requireConforms(t, request, got)
		}
	})
}
