package console

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
)

// The path of cookies is Base, so that browsers do not send them to other programs of the host.

// cookieName adds the prefix that makes browsers accept the cookie only by HTTPS, and with __Host- only from this host.
func (c *Console) cookieName(name string) string {
	switch {
	case !c.options.Secure:
		return name
	case c.options.Base == "":
		return "__Host-" + name // browsers allow the prefix for the path / only
	default:
		return "__Secure-" + name
	}
}

// setCookie sets a cookie for maxAge seconds. 0 keeps the cookie until the browser closes, and -1 removes it.
func (c *Console) setCookie(w http.ResponseWriter, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure wherever browsers use HTTPS
		Name: c.cookieName(name), Value: value, Path: c.cookiePath(), MaxAge: maxAge,
		HttpOnly: true, Secure: c.options.Secure, SameSite: http.SameSiteLaxMode,
	})
}

func (c *Console) cookiePath() string { return cmp.Or(c.options.Base, "/") }

func (c *Console) cookie(r *http.Request, name string) string {
	if cookie, err := r.Cookie(c.cookieName(name)); err == nil {
		return cookie.Value
	}
	return ""
}

const (
	// pieceSize leaves room for the name and the attributes in the 4 KiB that browsers give a cookie.
	pieceSize = 3800
	// maxPieces keeps all headers of a request below the 16 KiB of server.header_limit.
	maxPieces = 3
)

// setLongCookie splits a value over several cookies. The first cookie begins with the number of cookies. It returns
// false if the value is too long.
func (c *Console) setLongCookie(w http.ResponseWriter, r *http.Request, name, value string, maxAge int) bool {
	pieces := (len(value) + pieceSize - 1) / pieceSize
	if pieces > maxPieces {
		return false
	}
	for i := range maxPieces {
		piece := value[min(i*pieceSize, len(value)):min((i+1)*pieceSize, len(value))]
		switch {
		case i == 0 && piece != "":
			c.setCookie(w, name, strconv.Itoa(pieces)+"."+piece, maxAge)
		case piece != "":
			c.setCookie(w, pieceName(name, i), piece, maxAge)
		case c.cookie(r, pieceName(name, i)) != "":
			c.setCookie(w, pieceName(name, i), "", -1) // left by a longer value
		}
	}
	return true
}

func (c *Console) longCookie(r *http.Request, name string) string {
	number, first, _ := strings.Cut(c.cookie(r, name), ".")
	pieces, _ := strconv.Atoi(number)
	var value strings.Builder
	value.WriteString(first)
	for i := 1; i < min(pieces, maxPieces); i++ {
		value.WriteString(c.cookie(r, pieceName(name, i)))
	}
	return value.String()
}

func pieceName(name string, i int) string {
	if i == 0 {
		return name
	}
	return name + "-" + strconv.Itoa(i)
}
