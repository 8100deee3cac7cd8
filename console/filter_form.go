package console

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// filterForm is the form that adds a filter to a list of messages, with the filters in use and the two orders.
type filterForm struct {
	Action string
	// Keep are the parameters that the form keeps.
	Keep   filters
	Fields []field
	Chips  []chip
	// Clear is the page without filters, Newest and Oldest are its two orders.
	Clear, Newest, Oldest string
	OldestFirst           bool
}

// chip is a filter in words, and the page without it.
type chip struct {
	Text, Without string
	IsNot         bool
}

// field is a choice of the form.
type field struct{ Value, Text string }

// filteredPage is the path of a page with filters and an order.
type filteredPage func(selected filters, sort string) string

// filterForm makes the form of a page. The page keeps the other parameters, and the form offers more values of filters: a
// status has a chip only if the form offers statuses.
func (v *visit) filterForm(action string, page filteredPage, selected, others, offered filters) filterForm {
	sort := v.URL.Query().Get("sort")
	form := filterForm{
		Action: action, Keep: slices.Concat(selected, others), Fields: v.fields(offered),
		Clear: page(nil, sort), Newest: page(selected, ""), Oldest: page(selected, "created_at"), OldestFirst: sort == "created_at",
	}
	if form.OldestFirst {
		form.Keep = append(form.Keep, filter{"sort", sort})
	}
	offers := func(name string) bool {
		return slices.ContainsFunc(offered, func(one filter) bool { return one.Name == name })
	}
	for _, one := range selected {
		if one.Name != "status" || offers("status") {
			form.Chips = append(form.Chips, chip{Text: one.words(v.language), Without: page(selected.without(one), sort), IsNot: one.Not()})
		}
	}
	return form
}

func (v *visit) fields(offered filters) []field {
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

// addFilters leads to the page with more filters: the form is a GET, so that it works without the script.
func (v *visit) addFilters(page filteredPage, added filters) (*answer, error) {
	selected := filtersOf(v.URL.Query())
	for _, one := range added {
		selected = selected.with(one)
	}
	path := page(selected, v.URL.Query().Get("sort"))
	if len(added) == 0 {
		return v.refusedAs(path, v.text("No filter was added: it needs a value, and a header or a field of the payload needs its name."))
	}
	return goTo(path)
}

// addedFilters reads the form that adds filters; isForm is false for an address without it. A browser sends a time without
// a zone, which the form calls UTC.
func addedFilters(r *http.Request) (added filters, isForm bool) {
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

// refusedFilters is why the API does not take the filters of a list. It returns every other error as it is.
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
