package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/config"
)

func TestThePathOfTheConsoleIsNoPathOfTheAPI(t *testing.T) {
	t.Parallel()
	for path, prefix := range map[string]string{"/": "", "/console": "/console", "/console/": "/console", "/ops/dlq": "/ops/dlq", "/apis": "/apis"} {
		c, err := load(t, "console: {path: "+path+"}")
		require.NoError(t, err, path)
		require.Equal(t, prefix, c.Console.Prefix())
	}
	for _, path := range []string{"console", "''", "//", "/a//b", "/:id", "/a*", "'/a?b'", "'/a#b'", "/a%20b", "'/a b'", `'/a\b'`, "https://x/"} {
		problems := problemsOf(t, "console: {path: "+path+"}")
		require.Len(t, problems, 1, path)
		require.Contains(t, problems[0], "console.path: must be a path such as / or /console", path)
	}
	for _, path := range []string{"/api", "/api/v1/x", "/docs", "/docs/", "/metrics", "/healthz", "/readyz", "/debug", "/openapi.json", "/.well-known/x"} {
		require.Equal(t, []string{"file:1: console.path: is a path of the API; choose another such as /console"}, problemsOf(t, "console: {path: "+path+"}"), path)
	}
}

func TestBrowsersSeeThePathOfTheProxyToo(t *testing.T) {
	t.Parallel()
	for public, base := range map[string]string{"": "/console", "https://ops.example": "/console", "https://ops.example/dlq/": "/dlq/console"} {
		require.Equal(t, base, config.Console{Path: "/console"}.BaseOf(public))
	}
	require.Equal(t, "/dlq", config.Console{Path: "/"}.BaseOf("https://ops.example/dlq"))
	require.Empty(t, config.Console{Path: "/"}.BaseOf("https://ops.example/"))
}

func TestThePagesSignInWithTheProviderOfTheAPI(t *testing.T) {
	t.Parallel()
	const oidc = "auth:\n  mode: oidc" + oidcSection
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("s3cret\n"), 0o600))
	c, err := load(t, oidc+"console: {oidc: {client_id: pages, client_secret_file: '"+secret+"'}}")
	require.NoError(t, err)
	require.Equal(t, []string{"openid"}, c.Console.OIDC.Scopes)
	require.True(t, c.Console.OIDC.Confidential())
	text, err := c.Console.OIDC.Secret()
	require.NoError(t, err)
	require.Equal(t, "s3cret", text)
	for section, problem := range map[string]string{
		oidc + "console: {oidc: {client_secret: x}}":                                          "console.oidc.client_id: is required",
		oidc + "console: {oidc: {scopes: [openid, groups]}}":                                  "console.oidc.client_id: is required",
		oidc + "console: {oidc: {client_id: pages, scopes: [groups]}}":                        "console.oidc.scopes: must have openid",
		oidc + "console: {oidc: {client_id: pages, client_secret: a, client_secret_file: b}}": "client_secret_file: cannot be used together with console.oidc.client_secret",
		"auth: {mode: token, tokens_file: t}\nconsole: {oidc: {client_id: pages}}":            "console.oidc: has no effect without oidc in auth.mode",
	} {
		problems := problemsOf(t, section)
		require.Len(t, problems, 1, section)
		require.Contains(t, problems[0], problem)
	}
}

func TestTheConsoleHasAnAddressIfPeopleCanReachIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		public, path string
		disabled     bool
		want         string
	}{
		"without a public URL":  {path: "/"},
		"without the console":   {public: "https://dlq.example", path: "/", disabled: true},
		"at the root":           {public: "https://dlq.example/", path: "/", want: "https://dlq.example"},
		"below a path":          {public: "https://dlq.example", path: "/console/", want: "https://dlq.example/console"},
		"behind a proxy's path": {public: "https://ops.example/dlq", path: "/console", want: "https://ops.example/dlq/console"},
	} {
		c := config.Default()
		enabled := !test.disabled
		c.Server.PublicURL, c.Console.Path, c.Console.Enabled = test.public, test.path, &enabled
		require.Equal(t, test.want, c.ConsoleURL(), name)
	}
}
