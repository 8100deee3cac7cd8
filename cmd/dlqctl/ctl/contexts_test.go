package ctl_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// home is a run whose file of contexts is kept for the next run.
func home(t *testing.T) run {
	t.Helper()
	return run{env: map[string]string{"DLQCTL_CONFIG": filepath.Join(t.TempDir(), "folder", "config.yaml")}}
}

func TestContextsAreMadeChosenAndDeleted(t *testing.T) {
	t.Parallel()
	r := home(t)
	ok := func(args ...string) string {
		ran := r.dlqctl(t, args...)
		require.Zero(t, ran.code, ran.err)
		return ran.out
	}
	ok("contexts", "set", "local", "--server", "http://127.0.0.1:8080")
	r.stdin = "geheim\n"
	ok("contexts", "set", "prod", "--server", "https://dlq.example.com", "--token-stdin", "--production")
	require.Regexp(t, `local\s+true\s+http://127.0.0.1:8080\s+false\s+none\nprod\s+false\s+https://dlq.example.com\s+true\s+token\n`, ok("contexts", "list"))
	ok("contexts", "use", "prod")
	ok("contexts", "set", "prod", "--token-command", "vault", "--token-command", "read")
	require.JSONEq(t, `{"contexts": [
		{"name": "local", "current": false, "server": "http://127.0.0.1:8080", "production": false, "sign_in": "none"},
		{"name": "prod", "current": true, "server": "https://dlq.example.com", "production": true, "sign_in": "command vault"}
	]}`, ok("contexts", "list", "-o", "json"))
	ok("contexts", "delete", "local")
	require.Equal(t, "contexts/prod\n", ok("contexts", "list", "-o", "name"))

	info, err := os.Stat(r.env["DLQCTL_CONFIG"])
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	require.Contains(t, r.dlqctl(t, "contexts", "use", "local").err, `there is no context "local"`)
	require.Contains(t, r.dlqctl(t, "contexts", "set", "x", "--server", "dlq.example.com").err, "is no address of a server")
	require.Contains(t, r.dlqctl(t, "contexts", "set", "x").err, "needs a server")
	for _, name := range []string{"a b", "a\nb", "\x1b"} {
		ran := r.dlqctl(t, "contexts", "set", name, "--server", "http://127.0.0.1:1")
		require.Equal(t, 2, ran.code, name)
		require.Contains(t, ran.err, "is no name of a context")
	}
}

func TestAContextsFileIsReadOnlyIfItIsPrivateAndRight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, content string
		mode          os.FileMode
		says          string
	}{
		{"others may read it", "current: a\n", 0o644, "run chmod 600 "},
		{"a misspelt setting", "contexts: {a: {servr: x}}\n", 0o600, "servr"},
		{"no YAML", "\t", 0o600, "the file of the contexts, "},
		{"an unknown current context", "current: a\n", 0o600, `there is no context "a"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "config.yaml")
			require.NoError(t, os.WriteFile(path, []byte(c.content), c.mode))
			require.NoError(t, os.Chmod(path, c.mode))
			ran := run{env: map[string]string{"DLQCTL_CONFIG": path}}.dlqctl(t, "topics", "list")
			require.NotZero(t, ran.code)
			require.Contains(t, ran.err, c.says)
		})
	}
}

func TestATokenGoesToTheServerOfItsContextOnly(t *testing.T) {
	t.Parallel()
	var sent []string
	s := server(t, map[string]http.HandlerFunc{"GET /api/v1/dlq": func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Header.Get("Authorization"))
		answer(page)(w, r)
	}})
	r := home(t)
	r.stdin = "of the context\n"
	require.Zero(t, r.dlqctl(t, "contexts", "set", "a", "--server", s.env["DLQ_URL"], "--token-stdin").code)
	require.Zero(t, r.dlqctl(t, "topics", "list").code)
	require.Zero(t, r.dlqctl(t, "topics", "list", "--server", s.env["DLQ_URL"]).code)
	r.env["DLQ_TOKEN"] = "of the environment"
	require.Zero(t, r.dlqctl(t, "topics", "list", "--server", s.env["DLQ_URL"]).code)
	require.Zero(t, r.dlqctl(t, "topics", "list").code)
	require.Equal(t, []string{"Bearer of the context", "", "Bearer of the environment", "Bearer of the context"}, sent)
}

func TestAContextThatMovesToAnotherServerForgetsItsSignIn(t *testing.T) {
	t.Parallel()
	r := home(t)
	r.stdin = "geheim\n"
	require.Zero(t, r.dlqctl(t, "contexts", "set", "a", "--server", "https://one.example.com", "--token-stdin").code)
	require.Contains(t, r.dlqctl(t, "contexts", "set", "a", "--server", "https://ONE.example.com:443/path").err, "sign-in: token")
	require.Contains(t, r.dlqctl(t, "contexts", "set", "a", "--server", "https://two.example.com").err, "sign-in: none")
}

func TestAProductionContextAllowsNoChangeUnasked(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]http.HandlerFunc{
		"GET /api/v1/dlq/messages/m1":       answer(`{"id": "m1", "dlq_topic": "orders.dlq.v1"}`),
		"POST /api/v1/dlq/messages/m1/dead": answer(`{"id": "m1", "status": "DEAD"}`),
	})
	r := home(t)
	require.Zero(t, r.dlqctl(t, "contexts", "set", "p", "--server", s.env["DLQ_URL"], "--production").code)
	for _, args := range [][]string{{"messages", "dead", "m1"}, {"messages", "dead", "m1", "--server", s.env["DLQ_URL"] + "/"}} {
		ran := r.dlqctl(t, args...)
		require.Equal(t, 2, ran.code, ran.out)
		require.Contains(t, ran.err, "orders.dlq.v1")
		require.Contains(t, ran.err, "add --yes")
	}
	require.Zero(t, r.dlqctl(t, "messages", "dead", "m1", "--yes").code)
}

func TestOtherSpellingsOfAProductionServerAreProduction(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]http.HandlerFunc{"GET /api/v1/dlq/messages/m1": answer(`{"id": "m1", "dlq_topic": "orders.dlq.v1"}`)})
	address := strings.Replace(s.env["DLQ_URL"], "127.0.0.1", "localhost", 1)
	r := home(t)
	require.Zero(t, r.dlqctl(t, "contexts", "set", "p", "--server", address, "--production").code)
	for _, spelt := range []string{strings.ToUpper(address), address + "//"} {
		ran := r.dlqctl(t, "messages", "dead", "m1", "--server", spelt)
		require.Equal(t, 2, ran.code, spelt)
		require.Contains(t, ran.err, "add --yes", spelt)
	}
}

func TestAnAmbiguousServerIsRefused(t *testing.T) {
	t.Parallel()
	r := home(t)
	require.Zero(t, r.dlqctl(t, "contexts", "set", "p", "--server", "http://127.0.0.1:1", "--production").code)
	require.Equal(t, 2, r.dlqctl(t, "topics", "list", "--server", "http://127.0.0.1:2", "--context", "p").code)
	require.Contains(t, r.dlqctl(t, "topics", "list", "--token-file", "t").err, "a context has its own token")
	r.stdin = "\n"
	require.Contains(t, r.dlqctl(t, "contexts", "set", "p", "--token-stdin").err, "the standard input has no token")
	ran := r.dlqctl(t, "contexts", "set", "p", "--token-file", "a", "--token-command", "b")
	require.Equal(t, 2, ran.code, ran.err)
}

func TestALinkToTheContextsStaysALink(t *testing.T) {
	t.Parallel()
	r := home(t)
	folder := t.TempDir()
	r.env["DLQCTL_CONFIG"] = filepath.Join(folder, "link.yaml")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "real.yaml"), nil, 0o600))
	require.NoError(t, os.Symlink("real.yaml", r.env["DLQCTL_CONFIG"]))
	require.Zero(t, r.dlqctl(t, "contexts", "set", "a", "--server", "http://127.0.0.1:1").code)
	info, err := os.Lstat(r.env["DLQCTL_CONFIG"])
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink)
	require.Equal(t, "contexts/a\n", r.dlqctl(t, "contexts", "list", "-o", "name").out)
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, files, 3, "the link, its file and the lock")
}

func TestChangesOfContextsAtOnceAreAllKept(t *testing.T) {
	t.Parallel()
	r := home(t)
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			ran := r.dlqctl(t, "contexts", "set", fmt.Sprint("c", i), "--server", "http://127.0.0.1:1")
			assert.Zero(t, ran.code, ran.err)
		})
	}
	all.Wait()
	require.Equal(t, 10, strings.Count(r.dlqctl(t, "contexts", "list", "-o", "name").out, "contexts/"))
}

func TestAFolderIsNoFileOfContexts(t *testing.T) {
	t.Parallel()
	r := run{env: map[string]string{"DLQCTL_CONFIG": t.TempDir()}}
	require.Contains(t, r.dlqctl(t, "contexts", "list").err, "is a folder")
}
