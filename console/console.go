// Package console serves the HTML pages of the manager. A page is a few documented calls of the REST API with the
// rights of its user. So the package imports the Go client and nothing else of this module.
//
// A handler reads a visit and returns an answer: the name of a template with its data, or the page to go to next. Each
// template is a page; its parts that refresh themselves are blocks whose names begin with "region-".
package console

import (
	"errors"
	"net/http"
	"path"
	"strings"
	"sync/atomic"

	"go.uber.org/zap"

	"dlqmanager/client"
)

// Options configures a Console. Connect is required.
type Options struct {
	// Connect makes a client of the API that sends a token of the source with each request. The empty token stands for a
	// person who has not signed in.
	Connect func(client.TokenSource) (*client.Client, error)
	// SignIn is how people sign in. Default: nobody signs in.
	SignIn SignIn
	// Provider is the identity provider of SignInProvider. With SignInToken it is optional, and people choose between a
	// token and the provider.
	Provider *Provider
	// Link is the secret of SignInLink.
	Link string
	// Name stands beside the name of the product, and tells people which server this is. Default: none.
	Name string
	// Production marks the name as the name of a production server.
	Production bool
	// Docs is the address of the API's reference. Default: none.
	Docs string
	// Base is the path before all pages as a browser sees it, such as /dlq. Default: none.
	Base string
	// Origin is the scheme and host of this server in browsers, if a proxy changes the header Host. Default: Host, with https if Secure.
	Origin string
	// Secure makes cookies that browsers send by HTTPS only.
	Secure bool
	// Keys returns the current keys of the cookies, at least one: the first key encrypts, all keys decrypt.
	// Default: a key that ends with the process.
	Keys func() []Key
	// Logger receives the causes of errors. Default: none.
	Logger *zap.Logger
}

// SignIn is a way of signing in.
type SignIn string

const (
	// SignInNone lets everybody in: the API asks nobody who they are.
	SignInNone SignIn = ""
	// SignInToken asks for a token of the API.
	SignInToken SignIn = "token"
	// SignInProvider leads to the identity provider.
	SignInProvider SignIn = "provider"
	// SignInLink signs in only the first person who follows the link /sign-in/link/ with the secret at its end.
	SignInLink SignIn = "link"
)

// Roots are the first segments of the paths of all pages except the overview, whose path is empty.
var Roots = []string{
	"topics", "groups", "messages", "plans", "jobs", "retries", "archive", "audit", "me",
	"sign-in", "sign-out", "preferences", "assets",
}

// Console is the handler of all pages. It is safe for concurrent use.
type Console struct {
	options  Options
	seal     *sealer
	provider *relying // nil without an identity provider
	pages    map[locale]templates
	handler  http.Handler
	linkUsed atomic.Bool
}

// New makes a Console.
func New(options Options) (*Console, error) {
	if options.Connect == nil {
		return nil, errors.New("console: Connect is required")
	}
	if options.Logger == nil {
		options.Logger = zap.NewNop()
	}
	options.Base = strings.TrimRight(options.Base, "/")
	if options.Keys == nil {
		keys := []Key{NewKey()}
		options.Keys = func() []Key { return keys }
	}
	c := &Console{options: options, seal: &sealer{options.Keys}}
	switch {
	case options.SignIn == SignInLink && options.Link == "":
		return nil, errors.New("console: SignInLink needs a Link")
	case options.SignIn == SignInProvider && options.Provider == nil:
		return nil, errors.New("console: SignInProvider needs a Provider")
	case options.Provider != nil && (options.SignIn == SignInProvider || options.SignIn == SignInToken):
		c.provider = newRelying(*options.Provider)
	}
	var err error
	if c.pages, err = parseTemplates(options.Base); err != nil {
		return nil, err
	}
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(c.refuseForeign))
	if options.Origin != "" {
		if err := protection.AddTrustedOrigin(options.Origin); err != nil {
			return nil, err
		}
	}
	c.handler = withHeaders(compressed(protection.Handler(c.routes())))
	return c, nil
}

// ServeHTTP serves a page. The path of the request has no Base.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "" { // the request is for Base without a slash
		http.Redirect(w, r, c.options.Base+"/", http.StatusPermanentRedirect)
		return
	}
	if clean := path.Clean(r.URL.Path); clean != r.URL.Path && clean+"/" != r.URL.Path {
		r.URL.Path, r.URL.RawPath = "/unknown", "" // http.ServeMux would redirect to a path without Base
	}
	c.handler.ServeHTTP(w, r)
}

// policy allows a page only files of this server and images in data: addresses, and no inline script or style.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

func withHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin") // with no-referrer, POST forms would send the Origin "null"
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
