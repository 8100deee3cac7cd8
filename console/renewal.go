package console

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"dlqmanager/client"
)

// renewal is a refresh of tokens. A provider may accept a refresh token once only, while several tabs of a browser have it.
// So all requests with the same refresh token get the result of one renewal, also some time later.
type renewal struct {
	done  chan struct{}
	token *oauth2.Token
	err   error
}

// errSessionOver is why only a new sign-in helps.
var errSessionOver = fmt.Errorf("the session at the identity provider has ended: %w", client.ErrSignIn)

// renew gets new tokens for a refresh token. It outlives the request: the provider may take the refresh token back before
// its answer is read.
func (p *relying) renew(ctx context.Context, refresh string) (*oauth2.Token, error) {
	id := sha256.Sum256([]byte(refresh))
	p.mutex.Lock()
	r, found := p.renewals[id]
	if !found {
		r = &renewal{done: make(chan struct{})}
		p.renewals[id] = r
		go p.finish(context.WithoutCancel(ctx), id, r, refresh)
	}
	p.mutex.Unlock()
	select {
	case <-r.done:
		return r.token, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (p *relying) finish(ctx context.Context, id [sha256.Size]byte, r *renewal, refresh string) {
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	r.token, r.err = p.refresh(ctx, refresh)
	close(r.done)
	forget := func() {
		p.mutex.Lock()
		delete(p.renewals, id)
		p.mutex.Unlock()
	}
	if r.err != nil {
		forget()
		return
	}
	time.AfterFunc(shareRenewal, forget)
}

func (p *relying) refresh(ctx context.Context, refresh string) (*oauth2.Token, error) {
	m, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	c, err := p.client(m, "")
	if err != nil {
		return nil, err
	}
	token, err := c.TokenSource(m.context(ctx), &oauth2.Token{RefreshToken: refresh}).Token()
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.ErrorCode == "invalid_grant" {
		return nil, errSessionOver
	}
	if err != nil {
		return nil, providerError{err}
	}
	return token, nil
}

// revoke takes a refresh token back, if the provider can.
func (p *relying) revoke(ctx context.Context, m *metadata, refresh string) error {
	if m.Revocation == "" || refresh == "" {
		return nil
	}
	c, err := p.client(m, "")
	if err != nil {
		return err
	}
	form := url.Values{"token": {refresh}, "token_type_hint": {"refresh_token"}}
	if c.Endpoint.AuthStyle == oauth2.AuthStyleInParams {
		form.Set("client_id", c.ClientID)
		if c.ClientSecret != "" {
			form.Set("client_secret", c.ClientSecret)
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Revocation, strings.NewReader(form.Encode())) //nolint:gosec // of the provider
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if c.Endpoint.AuthStyle == oauth2.AuthStyleInHeader {
		request.SetBasicAuth(url.QueryEscape(c.ClientID), url.QueryEscape(c.ClientSecret))
	}
	response, err := m.client.Do(request) //nolint:gosec // the address is the provider's, checked by discover
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the identity provider answered the revocation with %s", response.Status)
	}
	return nil
}

// source is the token of one visit. It renews the token before that expires, and when the API refuses it. It is safe for
// concurrent use.
type source struct {
	provider *relying // nil for a token without a provider

	mutex   sync.Mutex
	session session
	refused string // a token that the API does not accept
	changed bool   // since the cookie was written
}

var _ client.Renewer = (*source)(nil)

// Token returns the token of the session. The error wraps client.ErrSignIn if only a new sign-in helps.
func (t *source) Token(ctx context.Context) (string, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	s := &t.session
	isDue := s.Token == t.refused || !s.Renew.IsZero() && !time.Now().Before(s.Renew)
	if t.provider == nil || s.Refresh == "" || s.Token == "" || !isDue {
		return s.Token, nil
	}
	token, err := t.provider.renew(ctx, s.Refresh)
	if err != nil {
		if s.Token != t.refused && time.Now().Before(s.Expires) {
			return s.Token, nil // it is still valid; another tab may have the next one
		}
		return "", err
	}
	s.take(token)
	t.changed = true
	return s.Token, nil
}

// Refused makes the next call of Token renew, once.
func (t *source) Refused(token string) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.provider == nil || t.session.Refresh == "" {
		return false
	}
	if t.session.Token != token {
		return true
	}
	t.refused = token
	return true
}

// take returns the session to be written to the cookie, if it has changed since the last call.
func (t *source) take() (session, bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	changed := t.changed
	t.changed = false
	return t.session, changed
}
