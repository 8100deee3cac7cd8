package app

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"dlqmanager/api"
	"dlqmanager/client"
	"dlqmanager/config"
	"dlqmanager/console"
)

// addConsole adds the HTML pages, which reach the API through the transport of the server once that is made.
func (p *parts) addConsole(o *api.Options, server *late) error {
	if !*p.cfg.Console.Enabled {
		return nil
	}
	pages, err := console.New(console.Options{
		Connect: func(token client.TokenSource) (*client.Client, error) {
			return client.New("http://localhost", client.Config{
				HTTP: &http.Client{Transport: server, Timeout: pageTimeout}, Token: token, Retries: -1, UserAgent: "dlq-console",
			})
		},
		SignIn: signInOf(p.cfg.Auth), Base: p.cfg.Console.BaseOf(p.cfg.Server.PublicURL), Origin: originOf(p.cfg.Server.PublicURL),
		Secure: p.cfg.Server.TLS.Configured() || strings.HasPrefix(p.cfg.Server.PublicURL, "https:"), Logger: p.log,
	})
	if err != nil {
		return err
	}
	o.Console = &api.Console{Pages: pages, Path: p.cfg.Console.Prefix(), Roots: console.Roots}
	return nil
}

// pageTimeout is longer than the API takes for any request of a page.
const pageTimeout = 2 * time.Minute

func signInOf(a config.Auth) console.SignIn {
	if a.Enabled() {
		return console.SignInToken
	}
	return console.SignInNone
}

func originOf(publicURL string) string {
	public, err := url.Parse(publicURL)
	if err != nil || public.Host == "" {
		return ""
	}
	return public.Scheme + "://" + public.Host
}

// late is a transport that is known after those that use it.
type late struct{ http.RoundTripper }
