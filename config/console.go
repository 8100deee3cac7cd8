package config

import (
	"net/url"
	"strings"
)

// Console configures the HTML pages that the API serves.
type Console struct {
	Enabled *bool `yaml:"enabled" default:"true"`
	// Path is where the pages begin, beside the paths of the API.
	Path string `yaml:"path" default:"/"`
	// KeyFile has the keys that encrypt the cookies of sessions, one a line: 32 bytes in base64. The first one encrypts, and
	// all decrypt. Empty: a key that ends with the process, so that every start asks everybody to sign in.
	KeyFile string `yaml:"key_file"`
}

// Prefix is Path without a slash at its end.
func (v Console) Prefix() string { return strings.TrimRight(v.Path, "/") }

// BaseOf is the path of the pages as browsers see it, behind a proxy that adds the path of the public URL.
func (v Console) BaseOf(publicURL string) string {
	public, err := url.Parse(publicURL)
	if err != nil {
		return v.Prefix()
	}
	return strings.TrimRight(public.EscapedPath(), "/") + v.Prefix()
}

func (v Console) validate(s section) {
	to, err := url.Parse(v.Path)
	if err != nil || !strings.HasPrefix(v.Path, "/") || strings.Contains(v.Path, "//") || strings.ContainsAny(v.Path, ":*+?#%\\ ") || to.Path != v.Path {
		s.add("path", "must be a path such as / or /console, not %q", v.Path)
		return
	}
	for _, taken := range []string{"/api", "/docs", "/debug", "/metrics", "/healthz", "/readyz", "/openapi.json", "/.well-known"} {
		if v.Prefix() == taken || strings.HasPrefix(v.Prefix(), taken+"/") {
			s.add("path", "is a path of the API; choose another such as /console")
		}
	}
}
