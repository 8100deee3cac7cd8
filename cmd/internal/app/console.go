package app

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"dlqmanager/api"
	"dlqmanager/client"
	"dlqmanager/config"
	"dlqmanager/console"
)

// addConsole adds the HTML pages. They reach the API through the transport of the server, which is made later.
func (p *parts) addConsole(o *api.Options, server *late) error {
	if !*p.cfg.Console.Enabled {
		return nil
	}
	options := console.Options{
		Connect: func(token client.TokenSource) (*client.Client, error) {
			return client.New("http://localhost", client.Config{
				HTTP:  &http.Client{Transport: server}, // the API limits the time for a page
				Token: token, Retries: -1, UserAgent: "dlq-console",
			})
		},
		SignIn: signInOf(p.cfg), Base: p.cfg.Console.BaseOf(p.cfg.Server.PublicURL), Origin: originOf(p.cfg.Server.PublicURL),
		Docs:   config.Console{Path: "/docs"}.BaseOf(p.cfg.Server.PublicURL),
		Secure: p.cfg.Server.TLS.Configured() || strings.HasPrefix(p.cfg.Server.PublicURL, "https:"), Logger: p.log,
	}
	if p.cfg.Console.OIDC.Configured() {
		if _, err := p.cfg.Console.OIDC.Secret(); err != nil {
			return err
		}
		options.Provider = p.providerOfPages()
	}
	if path := p.cfg.Console.KeyFile; path != "" {
		keys, err := console.NewKeyFile(path, p.log)
		if err != nil {
			return fmt.Errorf("console.key_file: %w", err)
		}
		options.Keys = keys.Keys
	}
	pages, err := console.New(options)
	if err != nil {
		return err
	}
	o.Console = &api.Console{Pages: pages, Path: p.cfg.Console.Prefix(), Roots: console.Roots}
	for _, link := range console.Links() {
		o.Console.Links = append(o.Console.Links, api.PageLink(link))
	}
	return nil
}

// providerOfPages is the identity provider whose tokens the API accepts. Its trusted certificates are read for every new
// connection.
func (p *parts) providerOfPages() *console.Provider {
	oidc := p.cfg.Console.OIDC
	provider := &console.Provider{
		Issuer: p.cfg.Auth.OIDC.Issuer, ClientID: oidc.ClientID, Scopes: oidc.Scopes,
		HTTP: func() (*http.Client, error) {
			trusted, err := p.cfg.Auth.OIDC.TLS()
			if err != nil {
				return nil, fmt.Errorf("auth.oidc.ca_file: %w", err)
			}
			return &http.Client{Timeout: providerTimeout, Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, TLSClientConfig: trusted, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute,
			}}, nil
		},
	}
	if oidc.Confidential() {
		provider.ClientSecret = oidc.Secret
	}
	return provider
}

const providerTimeout = 10 * time.Second

func signInOf(cfg *config.Config) console.SignIn {
	switch {
	case !cfg.Auth.Enabled():
		return console.SignInNone
	case cfg.Console.OIDC.Configured() && !cfg.Auth.Has("token"):
		return console.SignInProvider
	default:
		return console.SignInToken
	}
}

func originOf(publicURL string) string {
	public, err := url.Parse(publicURL)
	if err != nil || public.Host == "" {
		return ""
	}
	return public.Scheme + "://" + public.Host
}

// late is a transport that is set after the clients that use it are made.
type late struct{ http.RoundTripper }
