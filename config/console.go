package config

import (
	"net/url"
	"slices"
	"strings"
)

// Console configures the HTML pages that the API serves.
type Console struct {
	Enabled *bool `yaml:"enabled" default:"true"`
	// Path is the prefix of the paths of pages. It must not be a path of the API.
	Path string `yaml:"path" default:"/"`
	// KeyFile has the keys that encrypt the cookies of sessions. Each line is a key: 32 bytes in base64. The first key
	// encrypts, and all keys decrypt. Without a file the API makes a key at its start, so everybody must sign in again after
	// each start. The worker does not read the file.
	KeyFile string `yaml:"key_file"`
	// OIDC lets people sign in with the identity provider of auth.oidc.
	OIDC ConsoleOIDC `yaml:"oidc"`
}

// ConsoleOIDC is the OAuth client with which the pages sign people in.
type ConsoleOIDC struct {
	// ClientID is the id of the client. If it is empty, nobody can sign in to the pages with the identity provider.
	ClientID string `yaml:"client_id"`
	// ClientSecret is the secret of the client. A client without a secret is a public client. The API reads ClientSecretFile at
	// each use, and the worker does not read it.
	ClientSecret     Secret `yaml:"client_secret"`
	ClientSecretFile string `yaml:"client_secret_file"`
	// Scopes are the scopes that the pages ask for. Some providers give a refresh token only for the scope offline_access.
	// Without a refresh token a session ends early.
	Scopes []string `yaml:"scopes" default:"openid" check:"required"`
}

// Configured reports whether people can sign in with the identity provider.
func (o ConsoleOIDC) Configured() bool { return o.ClientID != "" }

// Confidential reports whether the client has a secret.
func (o ConsoleOIDC) Confidential() bool { return !o.ClientSecret.IsZero() || o.ClientSecretFile != "" }

// Secret reads the secret of the client.
func (o ConsoleOIDC) Secret() (string, error) {
	return secretFrom(o.ClientSecret, "console.oidc.client_secret_file", o.ClientSecretFile)
}

// Prefix is Path without a slash at its end.
func (v Console) Prefix() string { return strings.TrimRight(v.Path, "/") }

// BaseOf is the path of the pages in the URLs of browsers. A proxy may serve them below the path of the public URL.
func (v Console) BaseOf(publicURL string) string {
	public, err := url.Parse(publicURL)
	if err != nil {
		return v.Prefix()
	}
	return strings.TrimRight(public.EscapedPath(), "/") + v.Prefix()
}

// ConsoleURL is the URL of the console. It is empty without a public URL, or if the console is not enabled.
func (c *Config) ConsoleURL() string {
	if c.Server.PublicURL == "" || !*c.Console.Enabled {
		return ""
	}
	return strings.TrimRight(c.Server.PublicURL, "/") + c.Console.Prefix()
}

func (v Console) validate(s section) {
	s.refuse(!v.OIDC.Configured() && (v.OIDC.Confidential() || s.given("oidc.scopes")), "oidc.client_id", "is required")
	s.refuse(!slices.Contains(v.OIDC.Scopes, "openid"), "oidc.scopes", "must have openid")
	to, err := url.Parse(v.Path)
	if err != nil || !strings.HasPrefix(v.Path, "/") || strings.Contains(v.Path, "//") || strings.ContainsAny(v.Path, ":*+?#%\\ ") || to.Path != v.Path {
		s.add("path", "must be a path such as / or /console, not %q", v.Path)
		return
	}
	for _, taken := range []string{"/api", "/docs", "/debug", "/metrics", "/healthz", "/readyz", "/openapi.json", "/.well-known"} {
		s.refuse(strings.HasPrefix(v.Prefix()+"/", taken+"/"), "path", "is a path of the API; choose another such as /console")
	}
}

// validateConsole refuses an identity provider for the pages if the API does not accept its tokens.
func (c *Config) validateConsole(s section) {
	if c.Console.OIDC.Configured() && !c.Auth.Has("oidc") {
		s.addAt("console.oidc.client_id", "console.oidc", "has no effect without oidc in auth.mode")
	}
}
