package console

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"go.uber.org/zap"

	"dlqmanager/client"
)

// regionHeader names the part of a page that a script asks for.
const regionHeader = "Dlq-Region"

// visited serves a page to everybody.
func (c *Console) visited(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := c.visit(w, r)
		if err != nil {
			c.fail(v, err)
			return
		}
		a, err := v.handle(h)
		if err != nil {
			c.fail(v, err)
			return
		}
		c.reply(v, a)
	})
}

func (v *visit) handle(h handler) (a *answer, err error) {
	defer recovered(&err)
	return h(v)
}

// signedIn serves a page to people who have signed in, and sends everybody else to the sign-in first.
func (c *Console) signedIn(h handler) http.Handler {
	return c.visited(func(v *visit) (*answer, error) {
		switch err := v.identify(); {
		case errors.Is(err, errNobody):
			return v.askToSignIn()
		case err != nil:
			return nil, err
		}
		return h(v)
	})
}

// errNobody is the error of a person who has not signed in.
var errNobody error = &client.APIError{Status: http.StatusUnauthorized}

// identify finds out who the user is.
func (v *visit) identify() error {
	if v.console.options.SignIn != SignInNone && v.session.Token == "" {
		return errNobody
	}
	me, err := v.api.GetMe(v.Context(), nil)
	v.console.saveSession(v)
	if err != nil {
		return err
	}
	v.user = &me.Value
	return nil
}

func (c *Console) visit(w http.ResponseWriter, r *http.Request) (*visit, error) {
	v := &visit{Request: r, console: c, writer: w, prefer: preferencesOf(r)}
	v.session = c.readSession(r)
	v.flash = c.takeFlash(w, r)
	v.source = &source{session: v.session}
	if v.session.ByProvider {
		v.source.provider = c.provider
	}
	var err error
	v.api, err = c.options.Connect(v.source)
	return v, err
}

// askToSignIn leads to the sign-in, which leads back to the page.
func (v *visit) askToSignIn() (*answer, error) {
	if v.Header.Get(regionHeader) != "" {
		return &answer{status: http.StatusUnauthorized}, nil // the script loads the whole page again, which leads to the sign-in
	}
	next := "/"
	if v.Method == http.MethodGet {
		next = v.URL.RequestURI()
	} else if form, err := url.Parse(v.Referer()); err == nil {
		next = ownPath(strings.TrimPrefix(form.RequestURI(), v.console.options.Base), "/") // the page that has the posted form
	}
	return goTo("/sign-in?" + url.Values{"next": {next}}.Encode())
}

// reply writes an answer.
func (c *Console) reply(v *visit, a *answer) {
	c.saveSession(v)
	if a.elsewhere != "" {
		v.writer.Header().Set("Location", a.elsewhere)
		v.writer.WriteHeader(http.StatusSeeOther)
		return
	}
	if a.redirect != "" {
		c.setFlash(v)
		v.writer.Header().Set("Location", c.options.Base+ownPath(a.redirect, "/"))
		v.writer.WriteHeader(http.StatusSeeOther)
		return
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	if a.template == "" {
		v.writer.WriteHeader(a.status)
		if a.content != nil {
			_, _ = v.writer.Write(a.content)
		}
		return
	}
	content, err := c.render(v, a)
	if errors.Is(err, errNoRegion) {
		v.writer.WriteHeader(http.StatusNotFound)
		return
	}
	if err != nil {
		c.options.Logger.Error("a page cannot be shown", zap.String("path", v.URL.Path), zap.Error(err))
		http.Error(v.writer, "this page cannot be shown; the log of the server says why", http.StatusInternalServerError)
		return
	}
	h := v.writer.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", string(v.language))
	if v.Header.Get(regionHeader) != "" && a.status == http.StatusOK {
		sum := sha256.Sum256(content)
		tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
		h.Set("ETag", tag)
		if slices.Contains(v.Header["If-None-Match"], tag) {
			v.writer.WriteHeader(http.StatusNotModified)
			return
		}
	}
	v.writer.WriteHeader(a.status)
	_, _ = v.writer.Write(content)
}

// errNoRegion is the error of a request for a region that the page does not have. It is not logged.
var errNoRegion = errors.New("the page has no such region")

// render makes the whole page, or only the region that the script asks for.
func (c *Console) render(v *visit, a *answer) ([]byte, error) {
	set, ok := c.pages[v.language][a.template]
	if !ok {
		return nil, errors.New("no template " + a.template)
	}
	name := "layout"
	if region := v.Header.Get(regionHeader); region != "" {
		if a.status != http.StatusOK {
			return nil, nil
		}
		name = "region-" + region
		if set.Lookup(name) == nil {
			return nil, errNoRegion
		}
	}
	var out bytes.Buffer
	err := set.ExecuteTemplate(&out, name, v.view(a))
	return out.Bytes(), err
}

// fail answers with the reason of an error.
func (c *Console) fail(v *visit, err error) {
	status := statusOf(err)
	panicked, isPanic := errors.AsType[*panicError](err)
	if isPanic {
		status = http.StatusInternalServerError
		c.options.Logger.Error("panic in a page", zap.String("path", v.URL.Path), zap.String("request_id", v.Header.Get("X-Request-Id")),
			zap.Any("panic", panicked.value), zap.ByteString("stack", panicked.stack))
		err = &client.APIError{Status: status, RequestID: v.Header.Get("X-Request-Id"),
			Message: v.text("The page has a bug. The log of the server says more.")}
	}
	isOver := errors.Is(err, client.ErrSignIn)
	if isOver {
		status = http.StatusUnauthorized
	}
	canSignIn := c.options.SignIn != SignInNone && (c.options.SignIn != SignInLink || v.session.Token == "") // a link signs in once
	switch {
	case status != http.StatusUnauthorized || !canSignIn:
	case isOver && v.Header.Get(regionHeader) != "": // the script loads the whole page again
	case isOver && c.cookie(v.Request, againCookie) == "":
		c.again(v)
		return
	default:
		c.endSession(v)
		a, _ := v.askToSignIn()
		c.reply(v, a)
		return
	}
	if status >= http.StatusInternalServerError && !isPanic {
		c.options.Logger.Warn("a page failed", zap.String("path", v.URL.Path), zap.Error(err))
	}
	if v.Header.Get(regionHeader) != "" {
		c.saveSession(v)
		v.writer.WriteHeader(status)
		return
	}
	c.reply(v, v.problem(status, err))
}

const againCookie = "dlq-again"

// again makes the browser send its request once more, even a form. If another tab has just renewed the session at another
// replica, the browser now has the new cookie.
func (c *Console) again(v *visit) {
	c.setCookie(v.writer, againCookie, "1", 10)
	v.writer.Header().Set("Location", c.options.Base+v.URL.RequestURI())
	v.writer.WriteHeader(http.StatusTemporaryRedirect)
}

func (c *Console) refuseForeign(w http.ResponseWriter, r *http.Request) {
	v, err := c.visit(w, r)
	if err == nil {
		err = &client.APIError{Status: http.StatusForbidden, Message: v.text("The form was sent from a page of another web site. Nothing was changed.")}
	}
	c.fail(v, err)
}
