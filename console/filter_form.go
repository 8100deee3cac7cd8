package console

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// filterForm is the form that adds a filter to a list of messages, with the filters in use and the two orders.
type filterForm struct {
	listing

	Fields []field
	Chips  []chip
	// Clear is the page without filters. Newest and Oldest are the page in its two orders.
	Clear, Newest, Oldest string
	OldestFirst           bool
}

// field is a choice of the form.
type field struct{ Value, Text string }

// filterForm makes the form of a page. own are the parameters that only this page has. offered are filters that the form
// offers beside the usual filters. If no status is offered, the statuses in use have no chip.
func (v *visit) filterForm(path string, own url.Values, offered ...filter) filterForm {
	asked := filtersOf(v.URL.Query())
	names := filterNames(asked)
	maps.Copy(asked, own)
	form := filterForm{listing: listing{Path: path, Asked: asked}, Fields: v.fields(offered), Newest: pageOf(path, asked)}
	form.Oldest = form.Only("sort", "created_at")
	if v.URL.Query().Get("sort") == "created_at" {
		form.OldestFirst = true
		asked.Set("sort", "created_at")
	}
	form.Clear = pageOf(path, without(asked, names...))
	if !slices.ContainsFunc(offered, func(one filter) bool { return one.Name == "status" }) {
		names = slices.DeleteFunc(names, func(name string) bool { return name == "status" })
	}
	form.Chips = form.chips(names, func(name, value string) string { return filter{name, value}.words(v.language) })
	return form
}

func (v *visit) fields(offered []filter) []field {
	var all []field
	for _, name := range plainFilters {
		all = append(all, field{name, v.word("filter", name)})
	}
	all = append(all, field{"header", v.text("header (with its name)")}, field{"payload", v.text("field of the payload (with its path)")})
	for _, one := range slices.Concat(fixedFilters, offered) {
		all = append(all, field{one.Name + "=" + one.Value, one.words(v.language)})
	}
	return all
}

// addFilters leads to the list with the added filters. The form is a GET, so that it works without the script.
func (v *visit) addFilters(list listing, added []filter) (*answer, error) {
	for _, one := range added {
		list.Asked = withFilter(list.Asked, one)
	}
	path := pageOf(list.Path, list.Asked)
	if len(added) == 0 {
		return v.refusedAs(path, v.text("No filter was added: it needs a value, and a header or a field of the payload needs its name."))
	}
	return goTo(path)
}

// addedFilters reads the form that adds filters. isForm is false if the address was not made by the form. A browser sends times
// without a zone; the form asks for UTC.
func addedFilters(r *http.Request) (added []filter, isForm bool) {
	query := r.URL.Query()
	if !query.Has("field") {
		return nil, false
	}
	field, value, name := query.Get("field"), strings.TrimSpace(query.Get("value")), strings.TrimSpace(query.Get("name"))
	not := ""
	if query.Get("not") != "" {
		not = "not."
	}
	switch fixed, fixedValue, isFixed := strings.Cut(field, "="); {
	case isFixed:
		added = append(added, filter{fixed, fixedValue})
	case field == "header" || field == "payload":
		if name != "" && value != "" {
			added = append(added, filter{not + field + "." + name, value})
		}
	case value != "":
		added = append(added, filter{not + field, value})
	case field == "key" && not == "":
		added = append(added, filter{"key", ""})
	}
	for _, bound := range []string{"created_from", "created_to"} {
		if at, ok := typedTime(query.Get("add_" + bound)); ok {
			added = append(added, filter{bound, at.Format(time.RFC3339Nano)})
		}
	}
	return slices.DeleteFunc(added, func(one filter) bool { return !isFilter(one.Name) }), true
}

// typedTime reads the field of a form for a time, which is in UTC if it has no zone.
func typedTime(text string) (time.Time, bool) {
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02", time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), true
		}
	}
	return time.Time{}, false
}

// refusedFilters returns why the API refuses the filters of a list. It returns every other error unchanged.
func (v *visit) refusedFilters(err error) (refused string, other error) {
	if isStatus(err, http.StatusBadRequest) {
		return v.explain(err), nil
	}
	return "", err
}

// showFiltered answers with a page whose filters the API has refused, if refused is not empty.
func showFiltered(template, title string, data any, refused string) (*answer, error) {
	a := &answer{template: template, title: title, data: data}
	if refused != "" {
		a.status = http.StatusBadRequest
	}
	return a, nil
}
