package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"dlqmanager/client"
)

// visit is one request for a page.
type visit struct {
	*http.Request

	console *Console
	writer  http.ResponseWriter
	session session
	source  *source
	// api makes calls with the rights of the user.
	api  *client.Client
	user *client.Me
	prefer
	flash *flash
}

// handler makes a page, or makes a change and returns the next page.
type handler func(*visit) (*answer, error)

// answer is the result of a handler: a page, or the path of the next page.
type answer struct {
	template string
	title    string
	data     any
	// status is 200 if zero.
	status int
	// redirect is a path without Base.
	redirect string
	// content is the body of an answer without a template. Its handler sets the headers.
	content []byte
	// elsewhere is an address of the identity provider to go to.
	elsewhere string
}

// show answers with a page.
func show(template, title string, data any) (*answer, error) {
	return &answer{template: template, title: title, data: data}, nil
}

// goTo answers with the path of another page.
func goTo(path string) (*answer, error) { return &answer{redirect: path}, nil }

// done answers a change: the next page begins with a sentence about it.
func (v *visit) done(path, text string) (*answer, error) {
	v.flash = &flash{Kind: "done", Text: text, Path: pathOf(path)}
	return goTo(path)
}

// refused answers a change that the API has refused: the next page shows the reason once.
func (v *visit) refused(path string, err error) (*answer, error) {
	return v.refusedAs(path, v.explain(err))
}

// refusedAs answers a change that the console itself has refused.
func (v *visit) refusedAs(path, text string) (*answer, error) {
	v.flash = &flash{Kind: "refused", Text: text, Path: pathOf(path)}
	return goTo(path)
}

// changed answers a change: done if err is nil, else refused.
func (v *visit) changed(path, text string, err error) (*answer, error) {
	if err != nil {
		return v.refused(path, err)
	}
	return v.done(path, text)
}

func pathOf(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return path
}

// together makes several calls of the API at once, and returns the first error.
func (v *visit) together(calls ...func(ctx context.Context) error) error {
	group, ctx := errgroup.WithContext(v.Context())
	for _, call := range calls {
		group.Go(func() (err error) {
			defer recovered(&err)
			return call(ctx)
		})
	}
	return group.Wait()
}

// may tells whether the user may call a route of the API, at least on some topics.
func (v *visit) may(method, path string) bool {
	if v.user == nil {
		return false
	}
	for _, route := range v.user.Routes {
		if route.Method == method && route.Path == path {
			return true
		}
	}
	return false
}

// query returns a parameter of the page, nil if it is missing or empty.
func (v *visit) query(name string) *string {
	return optional(v.URL.Query().Get(name))
}

// asked returns the named parameters of the page that are not empty.
func (v *visit) asked(names ...string) url.Values {
	asked := url.Values{}
	for _, name := range names {
		if value := v.query(name); value != nil {
			asked.Set(name, *value)
		}
	}
	return asked
}

// typed returns a field of the form as a person typed it. Browsers end lines with CR LF.
func (v *visit) typed(name string) string { return unixLines(v.PostFormValue(name)) }

// field returns a field of the form, nil if it is missing or empty.
func (v *visit) field(name string) *string { return optional(v.typed(name)) }

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// back returns the page that a form names, else the fallback. A form cannot lead to another server.
func (v *visit) back(fallback string) string { return ownPath(v.PostFormValue("back"), fallback) }

// maxPath is the longest path to go back to, in bytes.
const maxPath = 8 << 10

// ownPath returns a path of this console unchanged, and the fallback for everything else. Browsers read a backslash as a
// slash, and leave out tabs and line ends. Two dots could lead out of Base. Servers refuse paths that are longer than maxPath.
func ownPath(path, fallback string) string {
	to, err := url.Parse(path)
	if err != nil || len(path) > maxPath || to.Scheme != "" || to.Host != "" || to.User != nil ||
		!strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") ||
		strings.ContainsFunc(path, func(r rune) bool { return r == '\\' || r < ' ' || r == 0x7f }) ||
		slices.ContainsFunc(strings.Split(to.Path, "/"), func(name string) bool { return name == "." || name == ".." }) {
		return fallback
	}
	return path
}
