package console

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// filter is one condition of a list of messages: a parameter of the API with its value. The address of a page has the page's
// filters as parameters with the API's names. So the query of an address is a selection of messages.
type filter struct{ Name, Value string }

// plainFilters are the names that the form offers, in its order.
var plainFilters = []string{
	"error", "class", "key", "consumer_group", "group", "trace_id", "correlation_id", "origin_partition", "origin_offset", "ids",
}

// fixedFilters have few possible values, so the form offers each name with each value.
var fixedFilters = []filter{
	{"suspicious", "true"}, {"suspicious", "false"}, {"verified", "yes"}, {"verified", "no"}, {"verified", "unknown"},
}

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

// mayBeEmpty tells whether a filter with an empty value chooses messages. If such a filter were left out, the list would have
// all messages.
func mayBeEmpty(name string) bool {
	return name == "key" || strings.HasPrefix(name, "header.") || strings.HasPrefix(name, "payload.")
}

// filtersOf reads the filters of an address.
func filtersOf(query url.Values) url.Values {
	selected := url.Values{}
	for name, values := range query {
		for _, value := range values {
			if isFilter(name) && (value != "" || mayBeEmpty(name)) {
				selected.Add(name, value)
			}
		}
	}
	return selected
}

// filterNames are the names of filters in the order of a page. A negation comes after the filter that it negates.
func filterNames(selected url.Values) []string {
	return slices.SortedFunc(maps.Keys(selected), func(a, b string) int {
		return cmp.Or(strings.Compare(baseOf(a), baseOf(b)), cmp.Compare(len(a), len(b)))
	})
}

// withFilter adds a filter. Only a negation can have several values; for any other name the added value replaces the former
// value.
func withFilter(selected url.Values, added filter) url.Values {
	more := withoutValue(selected, added.Name, added.Value)
	if !isNot(added.Name) {
		more.Del(added.Name)
	}
	more.Add(added.Name, added.Value)
	return more
}

// statusesOf returns the selected statuses. An empty result selects the messages of all statuses.
func statusesOf(selected url.Values) []string {
	if !selected.Has("status") {
		return nil
	}
	return strings.Split(strings.Join(selected["status"], ","), ",")
}

// toggleStatus adds a status to the selection, or removes a selected status.
func toggleStatus(selected url.Values, status string) url.Values {
	statuses := statusesOf(selected)
	if i := slices.Index(statuses, status); i >= 0 {
		statuses = slices.Delete(statuses, i, i+1)
	} else {
		statuses = append(statuses, status)
	}
	if len(statuses) == 0 {
		return without(selected, "status")
	}
	return with(selected, "status", strings.Join(statuses, ","))
}

// areSlow tells whether the API has no index for a filter, and reads candidate messages one by one.
func areSlow(selected url.Values) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(selected)), func(name string) bool {
		return isNot(name) || name == "verified" || strings.HasPrefix(name, "header.") || strings.HasPrefix(name, "payload.")
	})
}

// isNot tells whether a filter excludes messages.
func isNot(name string) bool { return strings.HasPrefix(name, "not.") }

func baseOf(name string) string { return strings.TrimPrefix(name, "not.") }
