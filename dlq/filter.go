package dlq

import (
	"slices"
	"time"
)

// MaxFilterIDs is how many messages a filter may name one by one.
const MaxFilterIDs = 1000

// Filter chooses messages of a topic, for lists, dry runs and bulk retries alike.
// Zero fields do not restrict. Its JSON is how a bulk retry keeps it.
//
// Adding a filter touches five files: this one for the field, api/filter.go for
// how it is asked for and shown, store/postgres/filter.go and
// store/memory/filter.go for what it matches, and api/openapi.yaml.
type Filter struct {
	// Topic is a dead-letter topic or an original topic. Required.
	Topic    string   `json:"topic"`
	Statuses []Status `json:"statuses,omitempty"`
	// ErrorContains is part of the error message, in any case.
	ErrorContains string `json:"error_contains,omitempty"`
	// Key is the exact record key. Nil does not restrict; an empty key is a key.
	Key []byte `json:"key"`
	// CreatedFrom is inclusive, CreatedTo exclusive.
	CreatedFrom time.Time `json:"created_from,omitzero"`
	CreatedTo   time.Time `json:"created_to,omitzero"`
	// IDs are at most MaxFilterIDs.
	IDs []ID `json:"ids,omitempty"`
}

// WithStatuses are the statuses that the filter lets through, each once: all of
// them, unless it names some.
func (f *Filter) WithStatuses() []Status {
	var through []Status
	for _, status := range Statuses {
		if len(f.Statuses) == 0 || slices.Contains(f.Statuses, status) {
			through = append(through, status)
		}
	}
	return through
}

// TakesPending reports whether the filter lets PENDING messages through, the only
// ones that a bulk retry sends.
func (f *Filter) TakesPending() bool { return slices.Contains(f.WithStatuses(), StatusPending) }

// storable is the filter as a store keeps it. It shares nothing with f.
func (f *Filter) storable() Filter {
	s := *f
	s.Topic = topicText(s.Topic)
	s.ErrorContains = Text(s.ErrorContains)
	s.Statuses = slices.Clone(s.Statuses)
	s.Key = slices.Clone(s.Key)
	s.IDs = unique(s.IDs)
	s.CreatedFrom, s.CreatedTo = s.CreatedFrom.UTC(), s.CreatedTo.UTC()
	return s
}

// unique keeps the first of each id, in their order.
func unique(ids []ID) []ID {
	seen := make(map[ID]bool, len(ids))
	var kept []ID
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			kept = append(kept, id)
		}
	}
	return kept
}
