package dlq

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Limits of a filter: the number of ids, the number of headers and JSON paths together, and the number of filters in Not.
const (
	MaxFilterIDs   = 1000
	MaxFilterParts = 10
	MaxFilterNots  = 10
)

// Filter selects messages of a topic, for lists, plans and jobs. Zero fields do not restrict. A job's row has the filter as
// JSON. FilterFields describes the fields.
type Filter struct {
	// Topic is a dead-letter topic or an original topic. It is required, except in Not.
	Topic    string   `json:"topic,omitempty"`
	Statuses []Status `json:"statuses,omitempty"`
	// ErrorContains is a part of the error message. Case is ignored.
	ErrorContains string `json:"error_contains,omitempty"`
	// Key is the exact record key. Nil does not restrict; an empty key is a key.
	Key []byte `json:"key,omitzero"`
	// CreatedFrom is inclusive, CreatedTo exclusive.
	CreatedFrom time.Time `json:"created_from,omitzero"`
	CreatedTo   time.Time `json:"created_to,omitzero"`
	// IDs has at most MaxFilterIDs ids.
	IDs []ID `json:"ids,omitempty"`
	// Group is the group of the messages; zero does not restrict.
	Group ID `json:"group,omitzero"`
	// Class is the name of the class of the error or of its cause, or the last part of this name.
	Class string `json:"class,omitempty"`
	// ConsumerGroup is the group whose consumer failed.
	ConsumerGroup string `json:"consumer_group,omitempty"`
	// OriginPartition and OriginOffset are the place in the original topic.
	OriginPartition *int32 `json:"origin_partition,omitempty"`
	OriginOffset    *int64 `json:"origin_offset,omitempty"`
	TraceID         string `json:"trace_id,omitempty"`
	CorrelationID   string `json:"correlation_id,omitempty"`
	// Suspicious is whether the headers are known to attack consumers.
	Suspicious *bool `json:"suspicious,omitempty"`
	// Headers are the values of headers, by their names. A message must have all of them.
	Headers map[string]string `json:"headers,omitempty"`
	// Payload are scalars of the payload as text, by paths such as "lines.0.sku".
	Payload map[string]string `json:"payload,omitempty"`
	// Verified is a filter of lists only: a message has a verdict only after its delivery.
	Verified Verified `json:"verified,omitempty"`
	// Within limits the dead-letter topics to the topics of a principal; see Principal.Within.
	Within string `json:"within,omitempty"`
	// Archived selects among the archived messages instead of the live messages.
	Archived bool `json:"archived,omitempty"`
	// Not excludes the messages that match any of these filters. It has at most MaxFilterNots filters, which have negatable
	// fields only. A message that lacks the value of a field does not match, and so is not excluded.
	Not []Filter `json:"not,omitempty"`
}

// FilterUse tells who uses a field of a filter, and how a store finds the messages.
type FilterUse int

const (
	// InLists fields are query parameters of lists.
	InLists FilterUse = 1 << iota
	// InJobs fields are in the bodies of jobs and plans.
	InJobs
	// Negatable fields may be in Filter.Not.
	Negatable
	// InOrder fields are in the indexes that have the order of lists, or in the primary key.
	InOrder
	// ByBody fields have an index of their own that finds a few messages by their bodies.
	ByBody
	// ByMessage fields have an index of their own for live messages.
	ByMessage
	// ByText fields are texts that no index has. The signatures of groups, which are sets of trigrams, tell which groups
	// can match.
	ByText
	// ByRecord fields make a list read each message.
	ByRecord
)

// FilterField describes a field of Filter.
type FilterField struct {
	// Name is the name in queries and bodies. For headers and payload, Part is the query parameter of each value.
	Name, Part string
	// Max is the most characters of a text, the most items of a list, or the largest number.
	Max int
	Use FilterUse
	// At returns the address of the field. The type of the pointer tells the type of the values.
	At func(*Filter) any
}

const (
	maxFilterText = 1000
	maxFilterKey  = 4096
	anywhere      = InLists | InJobs
	negatable     = anywhere | Negatable
)

// FilterFields are the fields of a filter. The parameters of lists, the bodies and the answers of jobs, the audit and the
// stores are made from this list. A new field needs a line here, its condition in store/postgres/filter.go, and its text in
// api/openapi.yaml.
var FilterFields = []FilterField{
	{"status", "", len(Statuses), anywhere | InOrder, func(f *Filter) any { return &f.Statuses }},
	{"error", "", maxFilterText, negatable | ByText, func(f *Filter) any { return &f.ErrorContains }},
	{"key", "", maxFilterKey, negatable | ByBody, func(f *Filter) any { return &f.Key }},
	{"created_from", "", 0, anywhere | InOrder, func(f *Filter) any { return &f.CreatedFrom }},
	{"created_to", "", 0, anywhere | InOrder, func(f *Filter) any { return &f.CreatedTo }},
	{"group", "", 0, negatable | ByMessage, func(f *Filter) any { return &f.Group }},
	{"class", "", maxFilterText, negatable | ByText, func(f *Filter) any { return &f.Class }},
	{"consumer_group", "", maxFilterText, negatable | ByText, func(f *Filter) any { return &f.ConsumerGroup }},
	{"origin_partition", "", math.MaxInt32, negatable, func(f *Filter) any { return &f.OriginPartition }},
	{"origin_offset", "", math.MaxInt64, negatable | ByBody, func(f *Filter) any { return &f.OriginOffset }},
	{"trace_id", "", maxFilterText, negatable | ByBody, func(f *Filter) any { return &f.TraceID }},
	{"correlation_id", "", maxFilterText, negatable | ByBody, func(f *Filter) any { return &f.CorrelationID }},
	{"suspicious", "", 0, anywhere | ByMessage, func(f *Filter) any { return &f.Suspicious }},
	{"headers", "header.NAME", maxFilterText, negatable | ByRecord, func(f *Filter) any { return &f.Headers }},
	{"payload", "payload.PATH", maxFilterText, negatable | ByRecord, func(f *Filter) any { return &f.Payload }},
	{"ids", "", MaxFilterIDs, anywhere | InOrder, func(f *Filter) any { return &f.IDs }},
	{"verified", "", 0, InLists | ByRecord, func(f *Filter) any { return &f.Verified }},
	{"within", "", 0, InOrder, func(f *Filter) any { return &f.Within }},
}

// Parameter is the query parameter of the field.
func (d FilterField) Parameter() string { return cmp.Or(d.Part, d.Name) }

// Is reports whether the field has one of these uses.
func (d FilterField) Is(uses FilterUse) bool { return d.Use&uses != 0 }

// Given are the fields that restrict, except for Topic, Archived and Not.
func (f *Filter) Given() (given []FilterField) {
	for _, field := range FilterFields {
		value := reflect.ValueOf(field.At(f)).Elem()
		if isMap := value.Kind() == reflect.Map; isMap && value.Len() > 0 || !isMap && !value.IsZero() {
			given = append(given, field)
		}
	}
	return given
}

// Has reports whether the filter has a field with one of these uses.
func (f *Filter) Has(uses FilterUse) bool {
	return slices.ContainsFunc(f.Given(), func(field FilterField) bool { return field.Is(uses) })
}

// Split divides the filter into a filter with the fields of these uses, and a filter with all other fields and Not.
func (f *Filter) Split(uses FilterUse) (with, without Filter) {
	with, without = Filter{Topic: f.Topic, Archived: f.Archived}, Filter{Topic: f.Topic, Archived: f.Archived, Not: f.Not}
	for _, field := range f.Given() {
		to := &without
		if field.Is(uses) {
			to = &with
		}
		reflect.ValueOf(field.At(to)).Elem().Set(reflect.ValueOf(field.At(f)).Elem())
	}
	return with, without
}

// Singles returns a filter for each field of f, and for each of its headers and JSON paths.
func (f *Filter) Singles() (singles []Filter) {
	rest := *f
	rest.Headers, rest.Payload = nil, nil
	for _, field := range rest.Given() {
		var single Filter
		reflect.ValueOf(field.At(&single)).Elem().Set(reflect.ValueOf(field.At(f)).Elem())
		singles = append(singles, single)
	}
	for name, text := range f.Headers {
		singles = append(singles, Filter{Headers: map[string]string{name: text}})
	}
	for path, text := range f.Payload {
		singles = append(singles, Filter{Payload: map[string]string{path: text}})
	}
	return singles
}

// EffectiveStatuses are the statuses that match the filter, each once. A filter that names no status matches all statuses.
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
func (f *Filter) IsText() bool { return f.Has(ByText) }

// IsLookup reports whether an index finds the messages of the filter.
func (f *Filter) IsLookup() bool { return f.Has(ByBody) }

// ReadsRecords reports whether a list reads each message to compare it with the filter. A list reads each message for a
// filter with Not too, since Not may exclude nearly all messages of a topic.
func (f *Filter) ReadsRecords() bool { return f.Has(ByRecord) || len(f.Not) > 0 }

// IsSearch reports whether a list reads the records of a limited number of messages. In the archive, which has fewer
// indexes, more filters are searches.
func (f *Filter) IsSearch() bool {
	unordered := func(field FilterField) bool { return !field.Is(InOrder) }
	isSlow := f.ReadsRecords() || f.Archived && slices.ContainsFunc(f.Given(), unordered)
	return isSlow && !f.IsLookup() && len(f.IDs) == 0
}

// SearchScope divides the filter of a search. scope selects the messages that the search looks at, up to its limit, and
// rest selects among these messages. Few messages may match rest, so a list without the limit could read a whole topic.
func (f *Filter) SearchScope() (scope, rest Filter) {
	scope, rest = f.Split(InOrder)
	if f.Verified != "" && len(f.Statuses) == 0 {
		scope.Statuses = []Status{StatusResolved}
	}
	return scope, rest
}

// classSeparators end the namespace of a class.
var classSeparators = []string{".", `\`, "::", "/"}

// ClassSuffixes are the possible endings of the name of a class whose last part is name. There are none if name has a
// namespace.
func ClassSuffixes(name string) (suffixes []string) {
	for _, separator := range classSeparators {
		if strings.Contains(name, separator) {
			return nil
		}
		suffixes = append(suffixes, separator+name)
	}
	return suffixes
}

// Storable is the filter as a store keeps it. Its lists are sorted and have no duplicates, so that two requests for the
// same work are equal. It shares no memory with f.
func (f *Filter) Storable() Filter {
	s := *f
	s.Topic = storableTopic(s.Topic)
	for _, field := range FilterFields {
		switch value := field.At(&s).(type) {
		case *string:
			*value = StorableText(*value)
		case *[]byte:
			*value = slices.Clone(*value)
		case *[]Status:
			*value = distinct(*value, func(x, y Status) int { return slices.Index(Statuses, x) - slices.Index(Statuses, y) })
		case *[]ID:
			*value = distinct(*value, func(x, y ID) int { return slices.Compare(x[:], y[:]) })
		case *time.Time:
			*value = value.UTC()
		case *map[string]string:
			*value = storableTexts(*value)
		}
	}
	s.Not = nil
	for i := range f.Not {
		s.Not = append(s.Not, f.Not[i].Storable())
	}
	s.Not = distinct(s.Not, func(x, y Filter) int { return bytes.Compare(x.canonical(), y.canonical()) })
	return s
}

// canonical is the JSON of the filter.
func (f *Filter) canonical() []byte {
	encoded, _ := json.Marshal(f) // every field can be encoded
	return encoded
}

// distinct is a sorted copy of a list without repetitions.
func distinct[T any](list []T, compare func(x, y T) int) []T {
	list = slices.Clone(list)
	slices.SortFunc(list, compare)
	return slices.CompactFunc(list, func(x, y T) bool { return compare(x, y) == 0 })
}

// Masked is the filter as the audit keeps it: its key and the values of headers and payload, which
// are data of messages, are empty. Within is empty too, because it shows the grants of a principal.
func (f *Filter) Masked() Filter {
	masked := f.Storable()
	masked.Within = ""
	if masked.Key != nil {
		masked.Key = []byte{}
	}
	for _, texts := range []map[string]string{masked.Headers, masked.Payload} {
		for name := range texts {
			texts[name] = ""
		}
	}
	for i := range masked.Not {
		masked.Not[i] = masked.Not[i].Masked()
	}
	return masked
}

func storableTexts(texts map[string]string) map[string]string {
	if len(texts) == 0 {
		return nil
	}
	storable := make(map[string]string, len(texts))
	for name, text := range texts {
		storable[StorableText(name)] = StorableText(text)
	}
	return storable
}
