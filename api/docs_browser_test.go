package api_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// browse opens a page in headless Chromium. It returns the document, and the lines that the browser has logged. Without
// Chromium the test is skipped, but with CI=true it fails.
func browse(t *testing.T, address string) (document, console string) {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		require.NotEqual(t, "true", os.Getenv("CI"), "chromium is not in PATH")
		t.Skip("SKIPPED: chromium is not in PATH")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--user-data-dir="+t.TempDir(),
		"--enable-logging=stderr", "--virtual-time-budget=10000", "--dump-dom", address)
	var out, log bytes.Buffer
	command.Stdout, command.Stderr = &out, &log
	require.NoError(t, command.Run(), log.String())
	return out.String(), log.String()
}

func TestTheDocsPageWorksWithinItsSecurityPolicy(t *testing.T) {
	t.Parallel()
	w := start(t)
	document, console := browse(t, "http://"+w.address+"/docs#/messages/listTopics") // the URL opens this operation
	require.Contains(t, document, "Dead-letter topics and how many messages each has")
	require.Contains(t, document, "Try it out")
	require.NotContains(t, console, "Content Security Policy")
	require.NotContains(t, console, "Uncaught")
}

func TestTheDocsPageNamesTheServerBelowThePathOfAProxy(t *testing.T) {
	t.Parallel()
	_, with := withPages("/console", http.MethodGet, "/api/v1/me")
	w := start(t, with)
	proxy := httptest.NewServer(http.StripPrefix("/dlq", httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: w.address})))
	t.Cleanup(proxy.Close)
	document, console := browse(t, proxy.URL+"/dlq/docs")
	require.Contains(t, document, `<option value="/dlq">/dlq</option>`)
	require.Contains(t, document, `<a href="./console/jobs">Jobs</a>`)
	require.NotContains(t, console, "Content Security Policy")
	require.NotContains(t, console, "Uncaught")
}

func TestTheBrowserReportsInlineScriptsThatThePolicyRefuses(t *testing.T) {
	t.Parallel()
	policy := start(t).call(http.MethodGet, "/docs").header.Get("Content-Security-Policy")
	page := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Security-Policy", policy)
		_, _ = rw.Write([]byte(`<p id=p style="color: red">safe</p><script>document.getElementById("p").textContent = "changed"</script>`))
	}))
	t.Cleanup(page.Close)
	document, console := browse(t, page.URL)
	require.Contains(t, document, ">safe<")
	require.Contains(t, console, "Content Security Policy")
}
