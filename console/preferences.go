package console

import (
	"net/http"

	"golang.org/x/text/language"
)

// locale is a language of the pages.
type locale string

const (
	english  locale = "en"
	japanese locale = "ja"
)

// locales are the languages of the pages. Browsers that ask for another language get the first.
var locales = []locale{english, japanese}

var matcher = language.NewMatcher([]language.Tag{language.English, language.Japanese})

// prefer has a person's preferences for the pages. They are in cookies without encryption.
type prefer struct {
	language locale
	// theme is light, dark, or empty for the system's theme.
	theme string
	// withoutKeys switches off the keyboard shortcuts of the script.
	withoutKeys bool
}

const (
	languageCookie = "dlq-language"
	themeCookie    = "dlq-theme"
	keysCookie     = "dlq-keys"
	aYear          = 365 * 24 * 60 * 60
)

func preferencesOf(r *http.Request) prefer {
	value := func(name string) string {
		if cookie, err := r.Cookie(name); err == nil {
			return cookie.Value
		}
		return ""
	}
	_, index := language.MatchStrings(matcher, value(languageCookie), r.Header.Get("Accept-Language"))
	p := prefer{language: locales[index], withoutKeys: value(keysCookie) == "off"}
	if theme := value(themeCookie); theme == "light" || theme == "dark" {
		p.theme = theme
	}
	return p
}

// setPreferences stores the preferences of a form, and goes back.
func (v *visit) setPreferences() (*answer, error) {
	set := func(cookie, field string, allowed ...string) {
		for _, value := range allowed {
			if v.PostFormValue(field) == value {
				http.SetCookie(v.writer, &http.Cookie{ //nolint:gosec // browsers may reach the pages by HTTP
					Name: cookie, Value: value, Path: v.console.cookiePath(), MaxAge: aYear,
					HttpOnly: true, Secure: v.console.options.Secure, SameSite: http.SameSiteLaxMode,
				})
			}
		}
	}
	set(languageCookie, "language", "en", "ja")
	set(themeCookie, "theme", "system", "light", "dark")
	set(keysCookie, "keys", "on", "off")
	return goTo(v.back("/me"))
}
