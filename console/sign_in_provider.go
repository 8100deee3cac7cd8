package console

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"go.uber.org/zap"
	"golang.org/x/oauth2"
)

const (
	attemptCookie = "dlq-attempt"
	// attemptLength limits the time that a person spends at the provider.
	attemptLength = 10 * time.Minute
	// signOutTimeout limits the requests for a sign-out, since the browser keeps its cookie until the answer comes.
	signOutTimeout = 5 * time.Second
	// callbackPath is the page to which the provider sends people back, after a sign-in and after a sign-out.
	callbackPath = "/sign-in/callback"
)

// callbackURL is the address of callbackPath, which must be registered at the provider.
func (v *visit) callbackURL() string { return v.origin(v.Host) + v.console.options.Base + callbackPath }

// goToProvider begins a sign-in.
func (v *visit) goToProvider() (*answer, error) {
	p := v.console.provider
	if p == nil {
		return v.unknown()
	}
	next := ownPath(v.URL.Query().Get("next"), "/")
	ctx, cancel := context.WithTimeout(v.Context(), providerTimeout)
	defer cancel()
	a := attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Until: time.Now().Add(attemptLength)}
	address, err := p.begin(ctx, v.callbackURL(), a)
	if err != nil {
		return v.providerFailed(next, err)
	}
	var sealed string
	for _, a.Next = range []string{next, pathOf(next), "/"} { // browsers ignore a cookie that is too long
		if sealed, err = v.console.seal.seal(attemptCookie, a); err != nil {
			return nil, err
		}
		if len(sealed) <= pieceSize {
			break
		}
	}
	v.console.setCookie(v.writer, attemptCookie, sealed, int(attemptLength.Seconds()))
	return &answer{elsewhere: address}, nil
}

// comeBack completes a sign-in that this browser has begun.
func (v *visit) comeBack() (*answer, error) {
	p, c, query := v.console.provider, v.console, v.URL.Query()
	if p == nil {
		return v.unknown()
	}
	if !query.Has("state") && !query.Has("code") && !query.Has("error") {
		return goTo("/sign-in") // the person comes back from a sign-out
	}
	var a attempt
	err := c.seal.open(attemptCookie, c.cookie(v.Request, attemptCookie), &a)
	if err != nil || !time.Now().Before(a.Until) || subtle.ConstantTimeCompare([]byte(a.State), []byte(query.Get("state"))) != 1 {
		return v.signInPage(http.StatusUnauthorized, "/",
			v.text("This sign-in was begun in another browser or another tab, or it took more than ten minutes. Begin again."))
	}
	c.setCookie(v.writer, attemptCookie, "", -1) // an attempt is used once
	if refused := query.Get("error"); refused != "" {
		if text := query.Get("error_description"); text != "" {
			refused += ": " + text
		}
		return v.signInPage(http.StatusUnauthorized, a.Next, v.text("The identity provider has refused the sign-in: %s", short(300, refused)))
	}
	ctx, cancel := context.WithTimeout(v.Context(), providerTimeout)
	defer cancel()
	s, err := p.end(ctx, v.callbackURL(), a, query)
	if err != nil {
		return v.providerFailed(a.Next, err)
	}
	problem, err := v.beginSession(s)
	if err != nil {
		return nil, err
	}
	if problem != "" {
		c.options.Logger.Warn("the API refuses a token of the identity provider", zap.String("reason", problem))
		return v.signInPage(http.StatusUnauthorized, a.Next,
			v.text("The API does not accept the token of the identity provider, which its administrators have to change: %s", problem))
	}
	return goTo(a.Next)
}

func (v *visit) providerFailed(next string, err error) (*answer, error) {
	v.console.options.Logger.Warn("a sign-in with the identity provider failed", zap.Error(err))
	if failure, ok := errors.AsType[providerError](err); ok && !failure.isRefusal() {
		return v.signInPage(http.StatusBadGateway, next, v.text("The identity provider does not answer as it should. The log of the server says more."))
	}
	return v.signInPage(http.StatusBadGateway, next, v.text("The sign-in with the identity provider has failed: %s", short(300, err.Error())))
}

// signOut ends the session here, and then leads to the identity provider, which ends its own session. It uses the header
// Refresh: form-action in the security policy of the page with the form would forbid a redirect.
func (v *visit) signOut() (*answer, error) {
	s, p := v.session, v.console.provider
	v.console.endSession(v)
	if p == nil || !s.ByProvider {
		return goTo("/sign-in")
	}
	ctx, cancel := context.WithTimeout(v.Context(), signOutTimeout)
	defer cancel()
	last := p.signOut(s.Refresh)
	m, err := p.discover(ctx)
	if err == nil {
		err = p.revoke(ctx, m, last)
	}
	if err != nil {
		v.console.options.Logger.Warn("the session at the identity provider goes on after a sign-out", zap.Error(err))
	}
	if m == nil || m.EndSession == "" {
		return goTo("/sign-in")
	}
	to, err := url.Parse(m.EndSession)
	if err != nil {
		return nil, errors.New("the identity provider announces no address for its sign-out")
	}
	query := to.Query()
	query.Set("client_id", p.ClientID)
	query.Set("post_logout_redirect_uri", v.callbackURL())
	if s.Identity != "" {
		query.Set("id_token_hint", s.Identity)
	}
	to.RawQuery = query.Encode()
	v.writer.Header().Set("Refresh", fmt.Sprintf("0; url=%s", to))
	return &answer{template: "sign_out", title: v.text("You are signed out"), data: to.String()}, nil
}
