package dlq

import (
	"slices"
	"strings"
	"time"
)

// Limits of a filter: the ids that it may name, and the headers and JSON paths together.
const (
	MaxFilterIDs   = 1000
	MaxFilterParts = 10
)

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
	// Class is the class of the error or of its cause, or the last part of its name.
	Class string `json:"class,omitempty"`
	// ConsumerGroup is the group whose consumer failed.
	ConsumerGroup string `json:"consumer_group,omitempty"`
	// OriginPartition and OriginOffset are those of the original topic.
	OriginPartition *int32 `json:"origin_partition,omitempty"`
	OriginOffset    *int64 `json:"origin_offset,omitempty"`
	TraceID         string `json:"trace_id,omitempty"`
	CorrelationID   string `json:"correlation_id,omitempty"`
	// Suspicious is whether the headers are known to attack consumers.
	Suspicious *bool `json:"suspicious,omitempty"`
	// Headers are the values of headers, by their names. A message has each of them.
	Headers map[string]string `json:"headers,omitempty"`
	// Payload are scalars of the payload as text, by their paths; see PayloadPath.
	Payload map[string]string `json:"payload,omitempty"`
	// Verified is that of lists only: messages that are sent have none.
	Verified Verified `json:"verified,omitempty"`
	// Within limits the dead-letter topics to those of a principal; see Principal.Within.
	Within string `json:"within,omitempty"`
	// Archived selects among the archived messages instead of the others.
	Archived bool `json:"archived,omitempty"`
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

// IsText reports whether the filter compares texts that no index has.
func (f *Filter) IsText() bool {
	return f.ErrorContains != "" || f.Class != "" || f.ConsumerGroup != ""
}

// IsLookup reports whether an index finds the messages of the filter.
func (f *Filter) IsLookup() bool {
	return f.Key != nil || f.TraceID != "" || f.CorrelationID != "" || f.OriginOffset != nil
}

// ReadsRecords reports whether the filter reads the headers or the payload of each message, or
// as much to tell whether it is verified.
func (f *Filter) ReadsRecords() bool { return len(f.Headers)+len(f.Payload) > 0 || f.Verified != "" }

// IsSearch reports whether a list reads the records of a limited number of messages. The archive
// has fewer indexes, so there more filters are a search.
func (f *Filter) IsSearch() bool {
	isSlow := f.ReadsRecords() || f.Archived && (f.IsText() || !f.Group.IsZero() || f.Suspicious != nil || f.OriginPartition != nil)
	return isSlow && !f.IsLookup() && len(f.IDs) == 0
}

// SearchScope is the filter of what a list of IsSearch looks at, and rest the filter that it
// applies to these messages. Conditions that few messages may meet are in rest: otherwise a list
// would read a whole topic to look at a limited number of messages.
func (f *Filter) SearchScope() (scope, rest Filter) {
	scope = Filter{Topic: f.Topic, Statuses: f.Statuses, CreatedFrom: f.CreatedFrom, CreatedTo: f.CreatedTo, Within: f.Within,
		Archived: f.Archived}
	if f.Verified != "" && len(f.Statuses) == 0 {
		scope.Statuses = []Status{StatusResolved}
	}
	rest = *f
	rest.CreatedFrom, rest.CreatedTo, rest.Within = time.Time{}, time.Time{}, ""
	return scope, rest
}

// PayloadPath splits a path into the names of fields and the positions in arrays, such as
// "lines.0.sku".
func PayloadPath(path string) []string { return strings.Split(path, ".") }

// classSeparators end the namespace of a class.
var classSeparators = []string{".", `\`, "::", "/"}

// ClassSuffixes are the ends of a class whose last part is name; none if name has a namespace.
func ClassSuffixes(name string) (suffixes []string) {
	for _, separator := range classSeparators {
		if strings.Contains(name, separator) {
			return nil
		}
		suffixes = append(suffixes, separator+name)
	}
	return suffixes
}

// IsClass reports whether name is the class or the last part of it.
func IsClass(class, name string) bool {
	return class == name || slices.ContainsFunc(ClassSuffixes(name), func(suffix string) bool { return strings.HasSuffix(class, suffix) })
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
	for _, text := range []*string{&s.Class, &s.ConsumerGroup, &s.TraceID, &s.CorrelationID} {
		*text = StorableText(*text)
	}
	s.Headers, s.Payload = storableTexts(s.Headers), storableTexts(s.Payload)
	return s
}

func storableTexts(texts map[string]string) map[string]string {
	var storable map[string]string
	for name, text := range texts {
		if storable == nil {
			storable = make(map[string]string, len(texts))
		}
		storable[StorableText(name)] = StorableText(text)
	}
	return storable
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
