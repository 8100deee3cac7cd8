package console

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Provider is an OpenID provider with which people sign in.
type Provider struct {
	// Issuer is the URL of the provider, exactly as in its tokens.
	Issuer string
	// ClientID is the client of the pages at the provider.
	ClientID string
	// ClientSecret returns the secret of the client; nil for a public client.
	ClientSecret func() (string, error)
	// Scopes to ask for. Default: openid.
	Scopes []string
	// HTTP makes a client for requests to the provider. discover calls it for each read of the metadata. Default: http.DefaultTransport.
	HTTP func() (*http.Client, error)
}

const (
	// discoverEvery is how long the metadata of a provider are used before they are read again.
	discoverEvery = 10 * time.Minute
	// providerTimeout limits the requests to a provider for one page.
	providerTimeout = 20 * time.Second
	// patience is how long a page waits for a renewal while its token is valid.
	patience = 2 * time.Second
	// shareRenewal is how long requests with the earlier cookie, such as requests of another tab, get the tokens of a
	// renewal.
	shareRenewal = time.Minute
)

// relying signs people in with a provider: authorization code with PKCE, state and nonce.
type relying struct {
	Provider

	mutex sync.Mutex
	known *metadata
	read  time.Time
	// renewals has the renewals by the digests of their refresh tokens. over has the digests of the refresh tokens of people
	// who have just signed out.
	renewals map[digest]*renewal
	over     map[digest]bool
	patience time.Duration // the constant, except in tests
}

type digest = [sha256.Size]byte

// metadata are the provider's announced addresses and abilities, with the HTTP client to reach it.
type metadata struct {
	provider *oidc.Provider
	client   *http.Client

	Keys        string   `json:"jwks_uri"`
	EndSession  string   `json:"end_session_endpoint"`
	Revocation  string   `json:"revocation_endpoint"`
	NamesIssuer bool     `json:"authorization_response_iss_parameter_supported"`
	AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
}

func newRelying(p Provider) *relying {
	if len(p.Scopes) == 0 {
		p.Scopes = []string{oidc.ScopeOpenID}
	}
	if p.HTTP == nil {
		p.HTTP = func() (*http.Client, error) { return &http.Client{}, nil }
	}
	return &relying{Provider: p, renewals: map[digest]*renewal{}, over: map[digest]bool{}, patience: patience}
}

// host names the provider for people.
func (p *relying) host() string {
	if at, err := url.Parse(p.Issuer); err == nil {
		return at.Host
	}
	return p.Issuer
}

// discover returns the provider's metadata.
func (p *relying) discover(ctx context.Context) (*metadata, error) {
	p.mutex.Lock()
	known, read := p.known, p.read
	p.mutex.Unlock()
	if known != nil && time.Since(read) < discoverEvery {
		return known, nil
	}
	client, err := p.HTTP()
	if err != nil {
		return nil, providerError{err}
	}
	limited := *client
	// A redirect could send secrets to another server.
	limited.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	m := &metadata{client: &limited}
	if m.provider, err = oidc.NewProvider(m.context(ctx), p.Issuer); err != nil {
		return nil, providerError{err}
	}
	if err := m.provider.Claims(m); err != nil {
		return nil, providerError{err}
	}
	at := m.provider.Endpoint()
	if at.AuthURL == "" || at.TokenURL == "" {
		return nil, errors.New("it announces no page for a sign-in, or no address for its tokens")
	}
	for _, address := range []string{at.AuthURL, at.TokenURL, m.Keys, m.EndSession, m.Revocation} {
		if !p.trusts(address) {
			return nil, fmt.Errorf("it announces the address %.200q, which is not https", address)
		}
	}
	p.mutex.Lock()
	p.known, p.read = m, time.Now()
	p.mutex.Unlock()
	return m, nil
}

// trusts returns false for an address with plain HTTP, unless the issuer has plain HTTP too.
func (p *relying) trusts(address string) bool {
	return address == "" || strings.HasPrefix(address, "https://") || strings.HasPrefix(p.Issuer, "http://") && strings.HasPrefix(address, "http://")
}

// context adds the HTTP client of the provider to ctx.
func (m *metadata) context(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, m.client)
}

// providerError is a failure of the provider or of the network. Its text has no secret and a limited length. It may name
// addresses of the network, so it is not shown to people who have not signed in.
type providerError struct{ error }

func (e providerError) Error() string {
	refused, ok := errors.AsType[*oauth2.RetrieveError](e.error) // the text of this type quotes the whole answer
	switch {
	case !ok:
		return fmt.Sprintf("%.300s", e.error.Error())
	case refused.ErrorCode == "":
		return fmt.Sprintf("it answered a request for tokens with %.300s", refused.Response.Status)
	case refused.ErrorDescription == "":
		return fmt.Sprintf("%.300s", refused.ErrorCode)
	}
	return fmt.Sprintf("%.300s: %.300s", refused.ErrorCode, refused.ErrorDescription)
}

// isRefusal tells whether the provider has refused the tokens with an error code.
func (e providerError) isRefusal() bool {
	refused, ok := errors.AsType[*oauth2.RetrieveError](e.error)
	return ok && refused.ErrorCode != ""
}

func (e providerError) Unwrap() error { return e.error }

// client has the settings of this server's requests for tokens.
func (p *relying) client(m *metadata, redirect string) (*oauth2.Config, error) {
	c := &oauth2.Config{ClientID: p.ClientID, Endpoint: m.provider.Endpoint(), RedirectURL: redirect, Scopes: p.Scopes}
	c.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	if p.ClientSecret == nil {
		return c, nil
	}
	if len(m.AuthMethods) == 0 || slices.Contains(m.AuthMethods, "client_secret_basic") {
		c.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
	}
	secret, err := p.ClientSecret()
	if err != nil {
		return nil, providerError{err}
	}
	c.ClientSecret = secret
	return c, nil
}

// attempt is a sign-in that has begun. It is in an encrypted cookie, so only the same browser can complete the sign-in.
type attempt struct {
	State, Nonce, Verifier string
	// Next is the page after the sign-in.
	Next  string
	Until time.Time
}

// begin returns the provider's page for an attempt.
func (p *relying) begin(ctx context.Context, redirect string, a attempt) (string, error) {
	m, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	c, err := p.client(m, redirect)
	if err != nil {
		return "", err
	}
	return c.AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), nil
}

// end exchanges the code of an attempt for a session.
func (p *relying) end(ctx context.Context, redirect string, a attempt, answer url.Values) (session, error) {
	m, err := p.discover(ctx)
	if err != nil {
		return session{}, err
	}
	if from := answer.Get("iss"); from != p.Issuer && (from != "" || m.NamesIssuer) { // RFC 9207
		return session{}, errors.New("the answer is from another identity provider")
	}
	c, err := p.client(m, redirect)
	if err != nil {
		return session{}, err
	}
	ctx = m.context(ctx)
	token, err := c.Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return session{}, providerError{err}
	}
	raw, _ := token.Extra("id_token").(string)
	if raw == "" {
		return session{}, errors.New("it has given no ID token; openid must be among the scopes")
	}
	identity, err := m.provider.VerifierContext(ctx, &oidc.Config{ClientID: p.ClientID}).Verify(ctx, raw)
	if err != nil && strings.Contains(err.Error(), "fetching keys") {
		return session{}, providerError{err}
	}
	if err != nil {
		return session{}, fmt.Errorf("its ID token is not valid: %.300s", err.Error())
	}
	var claims struct {
		Party string `json:"azp"`
	}
	switch err := identity.Claims(&claims); {
	case err != nil:
		return session{}, fmt.Errorf("its ID token is not valid: %.300s", err.Error())
	case identity.Nonce != a.Nonce:
		return session{}, errors.New("the ID token is of another sign-in")
	case identity.Subject == "":
		return session{}, errors.New("the ID token names nobody: it has no sub")
	case claims.Party != "" && claims.Party != p.ClientID:
		return session{}, fmt.Errorf("the ID token is for the client %.200q", claims.Party)
	}
	if identity.AccessTokenHash != "" {
		if err := identity.VerifyAccessToken(token.AccessToken); err != nil {
			return session{}, errors.New("the access token belongs to another ID token")
		}
	}
	s := session{Until: endOfSession(), Identity: raw, ByProvider: true}
	s.take(token)
	p.signIn(s.Refresh)
	return s, nil
}

// take uses new tokens. If the provider sends no refresh token, the former refresh token stays in use.
func (s *session) take(token *oauth2.Token) {
	s.Token, s.Expires, s.Renew = token.AccessToken, token.Expiry, time.Time{}
	if token.RefreshToken != "" {
		s.Refresh = token.RefreshToken
	}
	if !token.Expiry.IsZero() {
		s.Renew = token.Expiry.Add(-min(time.Minute, time.Until(token.Expiry)/4))
	}
}
