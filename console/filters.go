package console

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// filter is one condition of a list of messages: a parameter of the API with its value. A page keeps its filters in its address
// as the API names them, so that a selection is a query.
type filter struct{ Name, Value string }

// plainFilters are the names that stand in the field of the form, in its order.
var plainFilters = []string{
	"error", "class", "key", "consumer_group", "group", "trace_id", "correlation_id", "origin_partition", "origin_offset", "ids",
}

// fixedFilters have a few values each, so that the form offers the pairs.
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

// mayBeEmpty tells whether an empty value of a filter chooses messages: to leave it out would choose all of them.
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

// filterNames are the names of filters in the order of a page: a negation comes after its filter, whose name is shorter.
func filterNames(selected url.Values) []string {
	return slices.SortedFunc(maps.Keys(selected), func(a, b string) int {
		return cmp.Or(strings.Compare(baseOf(a), baseOf(b)), cmp.Compare(len(a), len(b)))
	})
}

// withFilter adds a filter. Only a negation can have several values: every other name has the last one.
func withFilter(selected url.Values, added filter) url.Values {
	more := withoutValue(selected, added.Name, added.Value)
	if !isNot(added.Name) {
		more.Del(added.Name)
	}
	more.Add(added.Name, added.Value)
	return more
}

// statusesOf are the selected statuses; none selects all.
func statusesOf(selected url.Values) []string {
	if !selected.Has("status") {
		return nil
	}
	return strings.Split(strings.Join(selected["status"], ","), ",")
}

// toggleStatus selects a status, or no longer.
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

// areSlow tells whether the API has to read the messages in question one by one.
func areSlow(selected url.Values) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(selected)), func(name string) bool {
		return isNot(name) || name == "verified" || strings.HasPrefix(name, "header.") || strings.HasPrefix(name, "payload.")
	})
}

// isNot tells whether a filter excludes messages.
func isNot(name string) bool { return strings.HasPrefix(name, "not.") }

func baseOf(name string) string { return strings.TrimPrefix(name, "not.") }
