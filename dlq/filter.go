package dlq

import (
	"slices"
	"time"
)

// MaxFilterIDs is how many ids a filter may name.
const MaxFilterIDs = 1000

// Filter selects messages of a topic, for lists, dry runs and bulk retries. Zero fields do
// not restrict. A bulk retry stores its JSON.
//
// A new filter needs changes in five files: this one for the field, api/filter.go for its
// parameter, store/postgres/filter.go and store/memory/filter.go for its condition, and
// api/openapi.yaml.
type Filter struct {
	// Topic is a dead-letter topic or an original topic. Required.
	Topic    string   `json:"topic"`
	Statuses []Status `json:"statuses,omitempty"`
	// ErrorContains is a part of the error message. Its case is ignored.
	ErrorContains string `json:"error_contains,omitempty"`
	// Key is the exact record key. Nil does not restrict; an empty key is a key.
	Key []byte `json:"key"`
	// CreatedFrom is inclusive, CreatedTo exclusive.
	CreatedFrom time.Time `json:"created_from,omitzero"`
	CreatedTo   time.Time `json:"created_to,omitzero"`
	// IDs are at most MaxFilterIDs.
	IDs []ID `json:"ids,omitempty"`
	// Group is the group of the messages; zero does not restrict.
	Group ID `json:"group,omitzero"`
	// Within limits the dead-letter topics to those of a principal; see Principal.Within.
	Within string `json:"within,omitempty"`
}

// EffectiveStatuses are the statuses that match the filter, each once: all of them, unless
// it names some.
func (f *Filter) EffectiveStatuses() []Status {
	var statuses []Status
	for _, status := range Statuses {
		if len(f.Statuses) == 0 || slices.Contains(f.Statuses, status) {
			statuses = append(statuses, status)
		}
	}
	return statuses
}

// IncludesPending reports whether the filter matches PENDING messages. Bulk retries send
// only these.
func (f *Filter) IncludesPending() bool { return slices.Contains(f.EffectiveStatuses(), StatusPending) }

// storable is the filter as a store keeps it. It shares no memory with f.
func (f *Filter) storable() Filter {
	s := *f
	s.Topic = storableTopic(s.Topic)
	s.ErrorContains = StorableText(s.ErrorContains)
	s.Statuses = slices.Clone(s.Statuses)
	s.Key = slices.Clone(s.Key)
	s.IDs = unique(s.IDs)
	s.CreatedFrom, s.CreatedTo = s.CreatedFrom.UTC(), s.CreatedTo.UTC()
	return s
}

// unique removes repeated ids and keeps the order.
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
