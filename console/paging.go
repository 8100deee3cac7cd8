package console

import (
	"net/url"
	"slices"
)

// cursorPages are the paths of the first page, unless it is shown, and of the next one, if there is one.
func cursorPages(path string, asked url.Values, next *string) (first, after string) {
	if asked.Get("cursor") != "" {
		first = pageOf(path, without(asked, "cursor"))
	}
	if next != nil {
		more := without(asked, "page")
		more.Set("cursor", *next)
		after = pageOf(path, more)
	}
	return first, after
}

// without is a copy of the parameters of a page that lacks some of them.
func without(asked url.Values, names ...string) url.Values {
	rest := url.Values{}
	for name, values := range asked {
		if !slices.Contains(names, name) {
			rest[name] = slices.Clone(values)
		}
	}
	return rest
}

// pageOf is the path of a page with its parameters.
func pageOf(path string, asked url.Values) string {
	if query := asked.Encode(); query != "" {
		return path + "?" + query
	}
	return path
}
