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

	"golang.org/x/oauth2"

	"dlqmanager/client"
)

// renewal is a refresh of tokens. A provider may accept a refresh token only once, but several tabs of a browser send it.
// So all requests with the same refresh token share one renewal, and its result is kept for shareRenewal.
type renewal struct {
	done     chan struct{}
	hasEnded bool // set before done is closed
	token    *oauth2.Token
	err      error
}

// errSessionOver tells that only a new sign-in helps.
var errSessionOver = fmt.Errorf("the session at the identity provider has ended: %w", client.ErrSignIn)

// renew gets new tokens for a refresh token. The renewal does not end with ctx: the provider may revoke the refresh token
// before its answer with the new tokens has been read.
func (p *relying) renew(ctx context.Context, refresh string) (*oauth2.Token, error) {
	id := sha256.Sum256([]byte(refresh))
	p.mutex.Lock()
	r, found := p.renewals[id]
	isOver := p.over[id]
	if !found && !isOver {
		r = &renewal{done: make(chan struct{})}
		p.renewals[id] = r
		go p.finish(context.WithoutCancel(ctx), id, r, refresh)
	}
	p.mutex.Unlock()
	if isOver {
		return nil, errSessionOver
	}
	select {
	case <-r.done:
		return r.token, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (p *relying) finish(ctx context.Context, id digest, r *renewal, refresh string) {
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	token, err := p.refresh(ctx, refresh)
	p.mutex.Lock()
	isOver := p.over[id]
	if r.token, r.err = token, err; isOver {
		r.token, r.err = nil, errSessionOver
	}
	r.hasEnded = true
	if r.err != nil {
		delete(p.renewals, id)
	}
	p.mutex.Unlock()
	close(r.done)
	switch {
	case r.err == nil:
		time.AfterFunc(shareRenewal, func() {
			p.mutex.Lock()
			defer p.mutex.Unlock()
			delete(p.renewals, id)
		})
	case err == nil: // the person has signed out meanwhile
		if m, err := p.discover(ctx); err == nil {
			_ = p.revoke(ctx, m, token.RefreshToken) // the person is signed out here in any case
		}
	}
}

// signOut prevents requests in progress from restoring a session with the tokens of its renewal. It returns the refresh token
// to revoke. It returns an empty text if a renewal is running, since the renewal then revokes its new token.
func (p *relying) signOut(refresh string) string {
	if refresh == "" {
		return ""
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	ids := []digest{sha256.Sum256([]byte(refresh))}
	if r := p.renewals[ids[0]]; r != nil {
		if !r.hasEnded {
			refresh = ""
		} else if r.token.RefreshToken != "" {
			refresh = r.token.RefreshToken
			ids = append(ids, sha256.Sum256([]byte(refresh)))
		}
	}
	for _, id := range ids {
		p.over[id] = true
		time.AfterFunc(shareRenewal, func() {
			p.mutex.Lock()
			defer p.mutex.Unlock()
			delete(p.over, id)
		})
	}
	return refresh
}

// signIn allows a refresh token again. After a new sign-in, some providers give the same refresh token as
// before the sign-out.
func (p *relying) signIn(refresh string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.over, sha256.Sum256([]byte(refresh)))
}

// isOver tells whether a person with one of these refresh tokens has signed out.
func (p *relying) isOver(tokens ...string) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.ContainsFunc(tokens, func(token string) bool { return p.over[sha256.Sum256([]byte(token))] })
}

func (p *relying) refresh(ctx context.Context, refresh string) (token *oauth2.Token, err error) {
	defer recovered(&err)
	m, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	c, err := p.client(m, "")
	if err != nil {
		return nil, err
	}
	token, err = c.TokenSource(m.context(ctx), &oauth2.Token{RefreshToken: refresh}).Token()
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.ErrorCode == "invalid_grant" {
		return nil, errSessionOver
	}
	if err != nil {
		return nil, providerError{err}
	}
	return token, nil
}

// revoke revokes a refresh token, if the provider supports that.
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
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Revocation, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if c.Endpoint.AuthStyle == oauth2.AuthStyleInHeader {
		request.SetBasicAuth(url.QueryEscape(c.ClientID), url.QueryEscape(c.ClientSecret))
	}
	response, err := m.client.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the identity provider answered the revocation with %s", response.Status)
	}
	return nil
}

// source is the token of one visit. It renews the token shortly before the token expires, and after the API has refused the
// token. It is safe for concurrent use.
type source struct {
	provider *relying // nil for a token without a provider

	mutex   sync.Mutex
	session session
	refused string // a token that the API does not accept
	former  string // the refresh token of the last renewal
	changed bool   // the session was renewed since the last call of take
	failed  bool   // a renewal has failed while the token was valid; the next page tries again
}

var _ client.Renewer = (*source)(nil)

// Token returns the token of the session. The error wraps client.ErrSignIn if only a new sign-in helps.
func (t *source) Token(ctx context.Context) (string, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	s := &t.session
	isRefused := s.Token == t.refused
	isDue := isRefused || !t.failed && !s.Renew.IsZero() && !time.Now().Before(s.Renew)
	if t.provider == nil || s.Refresh == "" || s.Token == "" || !isDue {
		return s.Token, nil
	}
	isValid := !isRefused && time.Now().Before(s.Expires)
	if isValid { // the renewal goes on without this page
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.provider.patience)
		defer cancel()
	}
	token, err := t.provider.renew(ctx, s.Refresh)
	if err != nil && isValid {
		t.failed = true
		return s.Token, nil
	}
	if err != nil {
		return "", err
	}
	t.former = s.Refresh
	s.take(token)
	t.changed = true
	return s.Token, nil
}

// Refused makes the next call of Token renew the refused token. It returns false if the session cannot be renewed.
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

// take returns the session, and whether it must be written to the cookie. This is so if the session was renewed since the last
// call, and nobody has signed out of it.
func (t *source) take() (session, bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	changed := t.changed && !t.provider.isOver(t.former, t.session.Refresh)
	t.changed = false
	return t.session, changed
}
