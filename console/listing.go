package console

import (
	"net/url"
	"slices"
)

// listing is a page with a list. The page and the API have the same parameters.
type listing struct {
	Path string
	// Asked are the parameters in use.
	Asked url.Values
	// First is the first page; empty on the first page. Next is the next page; empty on the last page.
	First, Next string
	// Refused is why the API has refused the parameters. Then there is no list.
	Refused string
}

// turned returns the list with First and Next. asked are the parameters of the address, next is the cursor of the next page.
func (l listing) turned(asked url.Values, next *string) listing {
	if asked.Get("cursor") != "" {
		l.First = pageOf(l.Path, without(asked, "cursor"))
	}
	if next != nil {
		l.Next = pageOf(l.Path, with(without(asked, "page"), "cursor", *next))
	}
	return l
}

// Only is the first page of the list, with this value as the only value of a parameter.
func (l listing) Only(name, value string) string {
	return pageOf(l.Path, with(without(l.Asked, "cursor"), name, value))
}

// chip is a filter in words, and the page without the filter.
type chip struct {
	Text, Without string
	IsNot         bool
}

// chips are the filters in use with these names, in this order.
func (l listing) chips(names []string, words func(name, value string) string) []chip {
	var chips []chip
	for _, name := range names {
		for _, value := range l.Asked[name] {
			rest := withoutValue(without(l.Asked, "cursor"), name, value)
			chips = append(chips, chip{Text: words(name, value), Without: pageOf(l.Path, rest), IsNot: isNot(name)})
		}
	}
	return chips
}

// with copies the parameters of a page, with this value as the only value of one parameter.
func with(asked url.Values, name, value string) url.Values {
	more := without(asked)
	more.Set(name, value)
	return more
}

// without copies the parameters of a page, except those with the given names.
func without(asked url.Values, names ...string) url.Values {
	rest := url.Values{}
	for name, values := range asked {
		if !slices.Contains(names, name) {
			rest[name] = slices.Clone(values)
		}
	}
	return rest
}

// withoutValue copies the parameters of a page, except one value of a parameter.
func withoutValue(asked url.Values, name, value string) url.Values {
	rest := without(asked)
	rest[name] = slices.DeleteFunc(rest[name], func(other string) bool { return other == value })
	return rest
}

// pageOf is the path of a page with its parameters.
func pageOf(path string, asked url.Values) string {
	if query := asked.Encode(); query != "" {
		return path + "?" + query
	}
	return path
}
