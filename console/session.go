package console

import (
	"net/http"
	"time"

	"go.uber.org/zap"
)

// session has the data of a person who has signed in. Only an encrypted cookie of the browser has it.
type session struct {
	// Token is sent to the API with each request.
	Token string `json:"token"`
	// Until is when the session ends.
	Until time.Time `json:"until"`
	// Refresh is the refresh token of the identity provider. The token is renewed from Renew on, and ends at Expires.
	// Refresh, Renew and Expires are empty after a sign-in by token.
	Refresh string    `json:"refresh,omitempty"`
	Renew   time.Time `json:"renew,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	// Identity is the ID token. At a sign-out it tells the provider which session to end.
	Identity string `json:"identity,omitempty"`
	// ByProvider is set after a sign-in with the identity provider.
	ByProvider bool `json:"by_provider,omitempty"`
}

// sessionLength limits how long a person stays signed in. A token may end earlier.
const sessionLength = 12 * time.Hour

func endOfSession() time.Time { return time.Now().Add(sessionLength) }

// flash is a sentence that the next page shows once.
type flash struct {
	Kind string `json:"kind"` // done or refused
	Text string `json:"text"`
	// Path is the page that shows the sentence.
	Path string `json:"path"`
}

const (
	sessionCookie = "dlq-session"
	flashCookie   = "dlq-flash"
)

// readSession returns the session of a request. It is empty if the cookie is missing, was not sealed with a key, or has ended.
func (c *Console) readSession(r *http.Request) session {
	var s session
	if c.seal.open(sessionCookie, c.longCookie(r, sessionCookie), &s) != nil || !time.Now().Before(s.Until) {
		return session{}
	}
	return s
}

// writeSession writes the cookie of a session, which the browser keeps until the session's end. If the tokens are too long,
// it leaves out the ID token, which a sign-out can do without. It returns false if they are still too long.
func (c *Console) writeSession(w http.ResponseWriter, r *http.Request, s session) (bool, error) {
	for {
		sealed, err := c.seal.seal(sessionCookie, s)
		if err != nil {
			return false, err
		}
		maxAge := max(int(time.Until(s.Until).Seconds()), 1)
		if fits := c.setLongCookie(w, r, sessionCookie, sealed, maxAge); fits || s.Identity == "" {
			return fits, nil
		}
		s.Identity = ""
	}
}

// saveSession writes the cookie of the session if this visit has renewed its token.
func (c *Console) saveSession(v *visit) {
	renewed, changed := v.source.take()
	if !changed {
		return
	}
	v.session = renewed
	if fits, err := c.writeSession(v.writer, v.Request, renewed); err != nil || !fits {
		c.options.Logger.Warn("renewed tokens do not fit into cookies", zap.Error(err))
	}
}

func (c *Console) endSession(v *visit) {
	v.session = session{}
	for i := range maxPieces {
		if name := pieceName(sessionCookie, i); i == 0 || c.cookie(v.Request, name) != "" {
			c.setCookie(v.writer, name, "", -1)
		}
	}
}

func (c *Console) setFlash(v *visit) {
	if v.flash == nil {
		return
	}
	f := *v.flash
	for most := len(f.Text); ; most /= 2 {
		f.Text = short(most, v.flash.Text)
		sealed, err := c.seal.seal(flashCookie, f)
		if err != nil || most == 0 {
			return
		}
		if len(sealed) <= flashSize {
			c.setCookie(v.writer, flashCookie, sealed, 60)
			return
		}
	}
}

// flashSize limits the sealed sentence, in bytes, to leave room for the cookies of a session: servers refuse headers that
// are too long.
const flashSize = 1500

// takeFlash returns the sentence for a page, and removes its cookie so that no later page shows it.
func (c *Console) takeFlash(w http.ResponseWriter, r *http.Request) *flash {
	sealed := c.cookie(r, flashCookie)
	if sealed == "" || r.Method != http.MethodGet || r.Header.Get(regionHeader) != "" {
		return nil
	}
	var f flash
	if c.seal.open(flashCookie, sealed, &f) != nil || f.Path != r.URL.Path {
		return nil
	}
	c.setCookie(w, flashCookie, "", -1)
	return &f
}
