package console

import (
	"net/http"
	"time"
)

// session is what the console keeps of a person who signed in: in an encrypted cookie, and nowhere else.
type session struct {
	// Token is sent to the API with each request.
	Token string `json:"token"`
	// Until is when the session ends.
	Until time.Time `json:"until"`
}

// sessionLength is how long a person stays signed in. A token may end earlier.
const sessionLength = 12 * time.Hour

// flash is a sentence that the next page shows once.
type flash struct {
	Kind string `json:"kind"` // done or refused
	Text string `json:"text"`
	// Path is the page that shows it.
	Path string `json:"path"`
}

const (
	sessionCookie = "dlq-session"
	flashCookie   = "dlq-flash"
)

// cookieName adds the prefix by which browsers keep other hosts from setting the cookie.
func (c *Console) cookieName(name string) string {
	if c.options.Secure {
		return "__Host-" + name
	}
	return name
}

// setCookie sets a cookie for maxAge seconds: 0 is until the browser closes, -1 removes it.
func (c *Console) setCookie(w http.ResponseWriter, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: c.cookieName(name), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: c.options.Secure, SameSite: http.SameSiteLaxMode,
	})
}

// readSession returns the session of a request, empty if there is none that this server has written.
func (c *Console) readSession(r *http.Request) session {
	var s session
	cookie, err := r.Cookie(c.cookieName(sessionCookie))
	if err != nil || c.seal.open(sessionCookie, cookie.Value, &s) != nil || !time.Now().Before(s.Until) {
		return session{}
	}
	return s
}

func (c *Console) beginSession(w http.ResponseWriter, token string) error {
	sealed, err := c.seal.seal(sessionCookie, session{Token: token, Until: time.Now().Add(sessionLength)})
	if err != nil {
		return err
	}
	c.setCookie(w, sessionCookie, sealed, int(sessionLength.Seconds()))
	return nil
}

func (c *Console) endSession(v *visit) {
	v.session = session{}
	c.setCookie(v.writer, sessionCookie, "", -1)
}

func (c *Console) setFlash(v *visit) {
	if v.flash == nil {
		return
	}
	if sealed, err := c.seal.seal(flashCookie, v.flash); err == nil {
		c.setCookie(v.writer, flashCookie, sealed, 60)
	}
}

// takeFlash returns the sentence for a page, which no later page shows.
func (c *Console) takeFlash(w http.ResponseWriter, r *http.Request) *flash {
	cookie, err := r.Cookie(c.cookieName(flashCookie))
	if err != nil || r.Method != http.MethodGet || r.Header.Get(regionHeader) != "" {
		return nil
	}
	var f flash
	if c.seal.open(flashCookie, cookie.Value, &f) != nil || f.Path != r.URL.Path {
		return nil
	}
	c.setCookie(w, flashCookie, "", -1)
	return &f
}
