package app

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
	"go.uber.org/zap"

	"dlqmanager/api"
	"dlqmanager/auth"
	"dlqmanager/config"
	"dlqmanager/dlq"
)

// browse is a browser. It follows redirects and keeps cookies.
func browse(t *testing.T) func(method, address string, form url.Values) (status int, text string, at *url.URL) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	client := &http.Client{Jar: jar, Timeout: 20 * time.Second}
	return func(method, address string, form url.Values) (int, string, *url.URL) {
		request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
		require.NoError(t, err)
		if form != nil {
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		answer, err := client.Do(request)
		require.NoError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(text), answer.Request.URL
	}
}

func TestWithoutADatabaseThePagesSayWhatNeedsOne(t *testing.T) {
	t.Parallel()
	health, _ := startAPI(t, func(*config.Config) {})
	visit := browse(t)
	status, text, _ := visit(http.MethodGet, health.URL()+"/", nil)
	require.Equal(t, http.StatusNotImplemented, status)
	require.Contains(t, text, "Needs a database")
	require.Contains(t, text, "set database.host")
	require.NotContains(t, text, "No message is lost")
	status, text, _ = visit(http.MethodGet, health.URL()+"/me", nil)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, "anonymous")
}

func TestASessionOutlastsTheProcessWithAKeyFile(t *testing.T) { //nolint:tparallel // one process follows the other
	t.Parallel()
	folder := t.TempDir()
	tokens, keys := filepath.Join(folder, "tokens.yaml"), filepath.Join(folder, "keys")
	token := auth.NewToken()
	entry, err := auth.Entry{Name: "alice", Role: dlq.RoleViewer}.Marshal(token)
	require.NoError(t, err)
	require.NoError(t, auth.Append(tokens, entry))
	require.NoError(t, os.WriteFile(keys, []byte("K7gNU3sdo+OL0wNhqoVWhr3g6s1xYv72ol/pe/Unols=\n"), 0o600))
	visit := browse(t)
	for _, first := range []bool{true, false} { //nolint:paralleltest // one process follows the other
		t.Run("", func(t *testing.T) {
			health, _ := startAPI(t, func(c *config.Config) {
				c.Auth.Mode, c.Auth.TokensFile, c.Console.KeyFile, c.Console.Path = []string{"token"}, tokens, keys, "/console"
			})
			if first {
				_, text, at := visit(http.MethodGet, health.URL()+"/console/me", nil)
				require.Equal(t, "/console/sign-in", at.Path)
				require.NotContains(t, text, "alice")
				_, _, at = visit(http.MethodPost, health.URL()+"/console/sign-in", url.Values{"token": {token}, "next": {"/me"}})
				require.Equal(t, "/console/me", at.Path)
			}
			status, text, at := visit(http.MethodGet, health.URL()+"/console/me", nil)
			require.Equal(t, http.StatusOK, status)
			require.Equal(t, "/console/me", at.Path)
			require.Contains(t, text, "alice")
			require.Contains(t, text, `href="/docs"`)
			_, _, at = visit(http.MethodGet, health.URL()+"/console", nil)
			require.Equal(t, "/console/", at.Path)
			status, _, _ = visit(http.MethodGet, health.URL()+"/me", nil)
			require.Equal(t, http.StatusNotFound, status)
		})
	}
}

func TestWithoutTheConsoleThereAreNoPages(t *testing.T) {
	t.Parallel()
	off := false
	health, _ := startAPI(t, func(c *config.Config) { c.Console.Enabled = &off })
	for _, path := range []string{"/", "/me", "/sign-in", "/assets/x"} {
		status, body := ask(t, http.MethodGet, health.URL()+path)
		require.Equal(t, http.StatusNotFound, status, path)
		require.Equal(t, "SYS_DLQ_NOT_FOUND", body["error"].(map[string]any)["code"])
	}
}

func TestTheAPIDoesNotStartWithoutTheFilesOfTheConsole(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(*config.Config){
		"console.key_file: open /nowhere/keys": func(c *config.Config) { c.Console.KeyFile = "/nowhere/keys" },
		"console.oidc.client_secret_file: open /nowhere/secret": func(c *config.Config) {
			c.Console.OIDC = config.ConsoleOIDC{ClientID: "a", ClientSecretFile: "/nowhere/secret"}
		},
	} {
		cfg := config.Default()
		change(cfg)
		p := &parts{cfg: cfg, log: zap.NewNop()}
		require.ErrorContains(t, p.addConsole(&api.Options{}, &late{}), says)
	}
}

func TestDoctorAsksForAKeyFile(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	require.Empty(t, findingsOf(t, cfg, "console"), "nobody signs in")
	cfg.Auth.Mode, cfg.Auth.TokensFile = []string{"token"}, "tokens.yaml"
	found := findingsOf(t, cfg, "console")
	require.Len(t, found, 1)
	require.Equal(t, levelWarn, found[0].Level)
	require.Contains(t, found[0].Do, "openssl rand -base64 32")
	cfg.Console.KeyFile = filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(cfg.Console.KeyFile, []byte("no key\n"), 0o600))
	found = findingsOf(t, cfg, "console")
	require.Len(t, found, 1)
	require.Equal(t, levelFail, found[0].Level)
	require.NoError(t, os.WriteFile(cfg.Console.KeyFile, []byte("K7gNU3sdo+OL0wNhqoVWhr3g6s1xYv72ol/pe/Unols=\n"), 0o600))
	require.Empty(t, findingsOf(t, cfg, "console"))
	require.NoError(t, os.Chmod(cfg.Console.KeyFile, 0o644))
	found = findingsOf(t, cfg, "console")
	require.Len(t, found, 1)
	require.Equal(t, levelWarn, found[0].Level)
	require.Contains(t, found[0].Do, "chmod o= ")
}
