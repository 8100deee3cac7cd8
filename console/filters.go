package console

import (
	"net/url"
	"slices"
	"strings"

	"dlqmanager/client"
)

// filter is one condition of a list of messages: a parameter of the API with its value.
type filter struct{ Name, Value string }

// filters are the conditions of a list, in the order of the address. A page keeps them in its address as the API names
// them, so that a selection is a query.
type filters []filter

// plainFilters are the names that stand in the field of the form, in its order.
var plainFilters = []string{
	"error", "class", "key", "consumer_group", "group", "trace_id", "correlation_id", "origin_partition", "origin_offset", "ids",
}

// fixedFilters have a few values each, so that the form offers the pairs.
var fixedFilters = filters{{"suspicious", "true"}, {"suspicious", "false"}, {"verified", "yes"}, {"verified", "no"}, {"verified", "unknown"}}

// isFilter tells whether a parameter of a page is a filter of the API.
func isFilter(name string) bool {
	base, negated := strings.CutPrefix(name, "not.")
	for _, prefix := range []string{"header.", "payload."} {
		if strings.HasPrefix(base, prefix) && len(base) > len(prefix) {
			return true
		}
	}
	if slices.Contains(plainFilters, base) {
		return base != "ids" || !negated
	}
	return !negated && slices.Contains([]string{"status", "created_from", "created_to", "suspicious", "verified"}, base)
}

// filtersOf reads the filters of an address. An empty value is a filter for the key only.
func filtersOf(query url.Values) filters {
	var all filters
	for name, values := range query {
		if !isFilter(name) {
			continue
		}
		for _, value := range values {
			if value != "" || name == "key" {
				all = append(all, filter{name, value})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b filter) int { return strings.Compare(a.base(), b.base()) })
	return all
}

// unknownIn returns the parameters of an address that are neither filters nor the page's own. The API refuses them, so that a
// misspelt filter does not select everything.
func unknownIn(query url.Values, own ...string) (unknown filters) {
	for name := range query {
		if !isFilter(name) && !slices.Contains(own, name) {
			unknown = append(unknown, filter{name, query.Get(name)})
		}
	}
	return unknown
}

// query returns the filters as parameters.
func (f filters) query() url.Values {
	query := url.Values{}
	for _, one := range f {
		query.Add(one.Name, one.Value)
	}
	return query
}

// options give the filters to a request of the API.
func (f filters) options() []client.RequestOption {
	options := make([]client.RequestOption, 0, len(f))
	for _, one := range f {
		options = append(options, client.Query(one.Name, one.Value))
	}
	return options
}

// without returns the filters but one.
func (f filters) without(one filter) filters {
	return slices.DeleteFunc(slices.Clone(f), func(other filter) bool { return other == one })
}

// with adds a filter. Only a negation can have several values: every other name has the last one.
func (f filters) with(one filter) filters {
	rest := slices.DeleteFunc(slices.Clone(f), func(other filter) bool { return other == one || other.Name == one.Name && !one.Not() })
	return append(rest, one)
}

// statuses are the selected statuses; none selects all.
func (f filters) statuses() []string {
	var all []string
	for _, one := range f {
		if one.Name == "status" {
			all = append(all, strings.Split(one.Value, ",")...)
		}
	}
	return all
}

// toggleStatus selects a status, or no longer.
func (f filters) toggleStatus(status string) filters {
	selected := f.statuses()
	rest := slices.DeleteFunc(slices.Clone(f), func(one filter) bool { return one.Name == "status" })
	if i := slices.Index(selected, status); i >= 0 {
		selected = slices.Delete(selected, i, i+1)
	} else {
		selected = append(selected, status)
	}
	if len(selected) > 0 {
		rest = append(rest, filter{"status", strings.Join(selected, ",")})
	}
	return rest
}

// areSlow tells whether the API has to read the messages in question one by one.
func (f filters) areSlow() bool {
	return slices.ContainsFunc(f, func(one filter) bool {
		return one.Not() || one.Name == "verified" || strings.HasPrefix(one.Name, "header.") || strings.HasPrefix(one.Name, "payload.")
	})
}

// Not tells whether the filter excludes messages.
func (f filter) Not() bool { return strings.HasPrefix(f.Name, "not.") }

func (f filter) base() string { return strings.TrimPrefix(f.Name, "not.") }
