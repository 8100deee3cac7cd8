package console

import (
	"net/http"
	"strings"
)

// view is the data of every template.
type view struct {
	v *visit

	Title string
	// Data is the data of the page itself.
	Data any
	// Path is the page without Base and query, URL the page with its query.
	Path, URL string
	Nav       []navItem
	Flash     *flash
	Language  locale
	Theme     string
	// Keys tells whether the script listens to keys.
	Keys bool
	// Name is the name of this server, and Production marks the name; both are empty until somebody has signed in.
	Name       string
	Production bool
	// Docs is the address of the API's reference, or empty.
	Docs string
	// User is the subject of the signed-in person; empty if nobody has signed in.
	User string
	// CanSignOut is false if nobody signs in, or only by the link.
	CanSignOut bool
}

// navItem is a link of the head.
type navItem struct {
	Path, Text string
	// Key opens the page if it is pressed after g.
	Key       string
	IsCurrent bool
}

// May tells whether the user may call a route of the API.
func (w view) May(method, path string) bool { return w.v.may(method, path) }

func (v *visit) view(a *answer) view {
	w := view{
		v: v, Title: a.title, Data: a.data, Path: v.URL.Path, URL: v.URL.RequestURI(), Flash: v.flash,
		Language: v.language, Theme: v.theme, Keys: !v.withoutKeys, Docs: v.console.options.Docs,
		CanSignOut: v.console.options.SignIn != SignInNone && v.console.options.SignIn != SignInLink,
	}
	if v.Method != http.MethodGet {
		w.URL = w.Path
	}
	if v.user == nil {
		return w
	}
	w.User = v.user.Subject
	w.Name, w.Production = v.console.options.Name, v.console.options.Production // strangers do not see the name
	w.Nav = nav(v.language)
	for i := range w.Nav {
		path := w.Nav[i].Path
		w.Nav[i].IsCurrent = v.URL.Path == path || path != "/" && strings.HasPrefix(v.URL.Path, path+"/")
	}
	return w
}

func nav(l locale) []navItem {
	return []navItem{
		{Path: "/", Text: l.text("Overview"), Key: "o"},
		{Path: "/groups", Text: l.text("Causes"), Key: "c"},
		{Path: "/jobs", Text: l.text("Jobs"), Key: "j"},
		{Path: "/retries", Text: l.text("Retries"), Key: "r"},
		{Path: "/archive", Text: l.text("Archive"), Key: "a"},
		{Path: "/audit", Text: l.text("Audit"), Key: "u"},
	}
}

// Link is a link in the head of every page. Its path has no Base.
type Link struct{ Path, Text string }

// Links are the links in the head of every page, in English.
func Links() []Link {
	items := nav(english)
	links := make([]Link, len(items))
	for i, item := range items {
		links[i] = Link{item.Path, item.Text}
	}
	return links
}
