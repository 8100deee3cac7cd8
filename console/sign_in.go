package console

import (
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"

	"dlqmanager/client"
)

// signInData is the page of the sign-in.
type signInData struct {
	Next    string
	Problem string
	// Invalid is set if the posted token was refused.
	Invalid bool
	// Token is set if people can sign in with a token. Provider is the host of the identity provider, if there is one.
	Token    bool
	Provider string
	// Link is set if only the link that the program has printed signs a person in.
	Link bool
}

// signInPage shows how people can sign in. A POST is always a form with a token.
func (v *visit) signInPage(status int, next, problem string) (*answer, error) {
	way := v.console.options.SignIn
	d := signInData{Next: next, Problem: problem, Invalid: v.Method == http.MethodPost, Token: way == SignInToken, Link: way == SignInLink}
	if p := v.console.provider; p != nil {
		d.Provider = p.host()
	}
	return &answer{template: "sign_in", title: v.text("Sign in"), status: status, data: d}, nil
}

func (v *visit) signInForm() (*answer, error) {
	next := ownPath(v.URL.Query().Get("next"), "/")
	switch {
	case v.console.options.SignIn == SignInNone:
		return goTo(next)
	case v.console.options.SignIn == SignInLink && v.session.Token != "":
		return goTo(next)
	case v.console.options.SignIn == SignInLink:
		return v.signInPage(http.StatusForbidden, next, "")
	default:
		return v.signInPage(http.StatusOK, next, "")
	}
}

// signIn tries a token. Each sign-in writes a new cookie, so that nobody can prepare a session for another person.
func (v *visit) signIn() (*answer, error) {
	next := ownPath(v.PostFormValue("next"), "/")
	if v.console.options.SignIn != SignInToken {
		return goTo("/sign-in")
	}
	token := strings.TrimSpace(v.PostFormValue("token"))
	again := func(problem string) (*answer, error) {
		return v.signInPage(http.StatusUnauthorized, next, problem)
	}
	if token == "" {
		return again(v.text("Enter a token."))
	}
	if len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return again(v.text("This is no token: it has spaces, or more than %d bytes.", maxToken))
	}
	problem, err := v.beginSession(session{Token: token, Until: endOfSession()})
	if err != nil {
		return nil, err
	}
	if problem != "" {
		return again(v.text("The server does not accept this token: %s", problem))
	}
	return goTo(next)
}

// maxToken is the longest token that the API accepts, in bytes. Such a token fits into cookies.
const maxToken = 8 << 10

// beginSession asks the API about the token of a session, and writes the session if the API accepts the token. Otherwise
// problem tells people why not.
func (v *visit) beginSession(s session) (problem string, err error) {
	api, err := v.console.options.Connect(client.StaticToken(s.Token))
	if err != nil {
		return "", err
	}
	if _, err := api.GetMe(v.Context(), nil); err != nil {
		if refused, ok := errors.AsType[*client.APIError](err); ok && refused.Status == http.StatusUnauthorized {
			return refused.Message, nil
		}
		return "", err
	}
	fits, err := v.console.writeSession(v.writer, v.Request, s)
	if err == nil && !fits {
		return v.text("its tokens are longer than the cookies of a browser; have it put fewer claims into them"), nil
	}
	return "", err
}

// followLink begins the session of the person who started the program. The link works once.
func (v *visit) followLink() (*answer, error) {
	c := v.console
	if c.options.SignIn != SignInLink {
		return v.unknown()
	}
	if v.Method != http.MethodGet || v.Header.Get("Sec-Purpose") != "" { // the browser loads the page before anybody opens it
		return &answer{status: http.StatusNoContent}, nil
	}
	isRight := subtle.ConstantTimeCompare([]byte(v.PathValue("secret")), []byte(c.options.Link)) == 1
	if !isRight || !c.linkUsed.CompareAndSwap(false, true) {
		return goTo("/sign-in") // the sign-in leads people on to the pages if they have used the link before
	}
	if _, err := c.writeSession(v.writer, v.Request, session{Token: "link", Until: endOfSession()}); err != nil {
		return nil, err
	}
	return goTo("/")
}
