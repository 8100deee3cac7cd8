package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// ErrSignIn is wrapped by the errors of a DeviceFlow that only a new sign-in repairs.
var ErrSignIn = errors.New("sign in again")

// Tokens has the tokens of a sign-in. A TokenStore keeps them for later processes.
type Tokens struct {
	// Issuer and ClientID tell where the tokens come from. The tokens go to no other provider.
	Issuer   string `json:"issuer"`
	ClientID string `json:"client_id"`
	Access   string `json:"access_token,omitempty"`
	Refresh  string `json:"refresh_token,omitempty"`
	// The access token ends at Expires, and is replaced from Renew on. Both are zero if the provider does not tell its lifetime.
	Expires time.Time `json:"expires,omitzero"`
	Renew   time.Time `json:"renew,omitzero"`
}

// TokenStore keeps the tokens of one sign-in. Each refresh may make the former refresh token invalid, so processes that share a
// store must exclude each other with Lock.
type TokenStore interface {
	// Load returns the zero value if there are no tokens.
	Load() (Tokens, error)
	// Save replaces the tokens; the zero value removes them.
	Save(tokens Tokens) error
	// Lock waits until no other process refreshes, or ctx ends.
	Lock(ctx context.Context) (unlock func(), err error)
}

// DevicePrompt has the texts for the person who signs in. They come from the provider.
type DevicePrompt struct {
	// URL is the page that asks for Code. PageWithCode is a page that needs no typing; empty if the provider has no such page.
	URL, Code, PageWithCode string
	Expires                 time.Time
}

// DeviceConfig has the settings of a sign-in. All but Scopes and HTTP are required.
type DeviceConfig struct {
	// Issuer is the URL of the OpenID provider, with https except on loopback.
	Issuer string
	// ClientID is a public client that may use the device flow.
	ClientID string
	// Scopes to ask for. Default: openid. Some providers give a refresh token only for the scope offline_access.
	Scopes []string
	Store  TokenStore
	// HTTP sends the requests to the provider; redirects are not followed. Default: a client with a timeout of 30 seconds.
	HTTP *http.Client
}

// DeviceFlow signs a person in with OpenID's device flow (RFC 8628), and is the source of the session's tokens: it refreshes
// them shortly before they expire, and when the server refuses them. It is safe for concurrent use.
type DeviceFlow struct {
	config DeviceConfig
	http   *http.Client

	mutex    sync.Mutex
	provider *provider // nil until its metadata is read
	tokens   Tokens
	refused  string // an access token that the server does not accept
}

var _ Renewer = (*DeviceFlow)(nil)

// NewDeviceFlow checks the settings. It sends no request.
func NewDeviceFlow(config DeviceConfig) (*DeviceFlow, error) {
	if config.ClientID == "" || config.Store == nil {
		return nil, errors.New("a sign-in needs the id of a client and a store")
	}
	if err := checkProviderURL("the issuer", config.Issuer); err != nil {
		return nil, err
	}
	if len(config.Scopes) == 0 {
		config.Scopes = []string{"openid"}
	}
	sender := http.Client{Timeout: 30 * time.Second}
	if config.HTTP != nil {
		sender = *config.HTTP
	}
	sender.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // to keep secrets at the provider
	return &DeviceFlow{config: config, http: &sender}, nil
}

// SignIn has the person confirm a code, and saves the tokens. show gets the page and the code. Then SignIn waits until the
// person has decided, the code has expired or ctx ends.
func (f *DeviceFlow) SignIn(ctx context.Context, show func(DevicePrompt)) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	p, err := f.discover(ctx)
	if err != nil {
		return err
	}
	var granted struct {
		DeviceCode   string  `json:"device_code"`
		UserCode     string  `json:"user_code"`
		URL          string  `json:"verification_uri"`
		PageWithCode string  `json:"verification_uri_complete"`
		ExpiresIn    float64 `json:"expires_in"`
		Interval     float64 `json:"interval"`
	}
	if err := f.post(ctx, p.Device, url.Values{"scope": {strings.Join(f.config.Scopes, " ")}}, &granted); err != nil {
		return err
	}
	if granted.DeviceCode == "" || granted.UserCode == "" || granted.URL == "" {
		return fmt.Errorf("the identity provider %s has given no code or no page to confirm it", p.Issuer)
	}
	lifetime, interval := seconds(granted.ExpiresIn, 10*time.Minute), seconds(granted.Interval, 5*time.Second)
	show(DevicePrompt{granted.URL, granted.UserCode, granted.PageWithCode, time.Now().Add(lifetime)})
	ctx, cancel := context.WithTimeoutCause(ctx, lifetime, errCodeExpired)
	defer cancel()
	for {
		if err := sleep(ctx, interval); err != nil {
			return err
		}
		tokens, err := f.exchange(ctx, p, url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {granted.DeviceCode}})
		if err == nil {
			return f.keep(ctx, tokens)
		}
		failed, _ := errors.AsType[*providerError](err)
		switch {
		case failed == nil:
			return err
		case failed.mayPass:
			interval = min(2*interval, time.Minute)
		case failed.code == "slow_down":
			interval += 5 * time.Second
		case failed.code == "authorization_pending":
		case failed.code == "access_denied":
			return errors.New("the sign-in was refused, by you or by the identity provider")
		case failed.code == "expired_token":
			return errCodeExpired
		default:
			return err
		}
	}
}

var errCodeExpired = errors.New("the code has expired before it was confirmed; start the sign-in again")

func (f *DeviceFlow) keep(ctx context.Context, tokens Tokens) error {
	unlock, err := f.config.Store.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	f.tokens, f.refused = tokens, ""
	return f.config.Store.Save(tokens)
}

// SignOut removes the tokens, and revokes the refresh token if the provider supports that.
func (f *DeviceFlow) SignOut(ctx context.Context) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	unlock, err := f.config.Store.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	failed := f.load()
	tokens := f.tokens
	f.tokens = Tokens{}
	if err := f.config.Store.Save(Tokens{}); err != nil || tokens.Refresh == "" {
		return cmp.Or(err, failed)
	}
	p, err := f.discover(ctx)
	if err != nil || p.Revocation == "" {
		return err
	}
	return f.post(ctx, p.Revocation, url.Values{"token": {tokens.Refresh}, "token_type_hint": {"refresh_token"}}, nil)
}

// Token returns the access token. If the token expires soon or was refused, Token refreshes it first. The error wraps ErrSignIn
// if nobody is signed in or the session has ended.
func (f *DeviceFlow) Token(ctx context.Context) (string, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.tokens.Access == "" {
		if err := f.load(); err != nil {
			return "", err
		}
	}
	if f.usable() {
		return f.tokens.Access, nil
	}
	unlock, err := f.config.Store.Lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := f.load(); err != nil { // another process may have refreshed meanwhile
		return "", err
	}
	if f.usable() {
		return f.tokens.Access, nil
	}
	err = f.refresh(ctx)
	failed, _ := errors.AsType[*providerError](err)
	isOutage := failed != nil && failed.mayPass && f.tokens.Access != f.refused && time.Now().Before(f.tokens.Expires)
	if err != nil && !isOutage {
		return "", err
	}
	return f.tokens.Access, nil
}

// Refused makes the next call of Token refresh the access token, if there is a refresh token.
func (f *DeviceFlow) Refused(token string) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.tokens.Access != token {
		return true
	}
	f.refused = token
	return f.tokens.Refresh != ""
}

// usable tells whether the access token can be sent. Without a refresh token, even an expired token is sent: the server's
// refusal gives the reason.
func (f *DeviceFlow) usable() bool {
	t := f.tokens
	return t.Access != "" && t.Access != f.refused && (t.Refresh == "" || t.Renew.IsZero() || time.Now().Before(t.Renew))
}

// load reads the tokens, unless they belong to another provider or client.
func (f *DeviceFlow) load() error {
	tokens, err := f.config.Store.Load()
	if err == nil && (tokens.Issuer != f.config.Issuer || tokens.ClientID != f.config.ClientID) {
		tokens = Tokens{}
	}
	f.tokens = tokens
	return err
}

// refresh gets new tokens and saves them. It does not end with ctx: the provider may revoke the former refresh token before
// its answer with the new one has been read.
func (f *DeviceFlow) refresh(ctx context.Context) error {
	if f.tokens.Refresh == "" {
		return fmt.Errorf("nobody is signed in: %w", ErrSignIn)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	p, err := f.discover(ctx)
	if err != nil {
		return err
	}
	tokens, err := f.exchange(ctx, p, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {f.tokens.Refresh}})
	if failed, ok := errors.AsType[*providerError](err); ok && failed.code == "invalid_grant" {
		return fmt.Errorf("the session has ended (%w): %w", failed, ErrSignIn)
	}
	if err != nil {
		return err
	}
	tokens.Refresh = cmp.Or(tokens.Refresh, f.tokens.Refresh)
	f.tokens = tokens
	return f.config.Store.Save(tokens)
}
