package console

import (
	"errors"
	"net/http"
	"strings"

	"dlqmanager/client"
)

// signInData is what the form of the token shows.
type signInData struct {
	Next    string
	Problem string
}

func (v *visit) signInForm() (*answer, error) {
	next := ownPath(v.URL.Query().Get("next"), "/")
	if v.console.options.SignIn == SignInNone {
		return goTo(next)
	}
	return show("sign_in", v.text("Sign in"), signInData{Next: next})
}

// signIn tries a token. Whoever signs in gets a new cookie, so that nobody can prepare one for them.
func (v *visit) signIn() (*answer, error) {
	next := ownPath(v.PostFormValue("next"), "/")
	if v.console.options.SignIn == SignInNone {
		return goTo(next)
	}
	token := strings.TrimSpace(v.PostFormValue("token"))
	again := func(problem string) (*answer, error) {
		return &answer{template: "sign_in", title: v.text("Sign in"), status: http.StatusUnauthorized, data: signInData{next, problem}}, nil
	}
	if token == "" {
		return again(v.text("Enter a token."))
	}
	if len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return again(v.text("This is no token: it has spaces, or more than %d bytes.", maxToken))
	}
	api, err := v.console.options.Connect(token)
	if err != nil {
		return nil, err
	}
	if _, err := api.GetMe(v.Context(), nil); err != nil {
		var refused *client.APIError
		if errors.As(err, &refused) && refused.Status == http.StatusUnauthorized {
			return again(v.text("The server does not accept this token: %s", refused.Message))
		}
		return nil, err
	}
	if err := v.console.beginSession(v.writer, token); err != nil {
		return nil, err
	}
	return goTo(next)
}

// maxToken is what fits into a cookie once it is encrypted.
const maxToken = 2800

func (v *visit) signOut() (*answer, error) {
	v.console.endSession(v)
	return goTo("/sign-in")
}
