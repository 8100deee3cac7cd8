package api

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"dlqmanager/dlq"
)

// negation is the field of a body that excludes messages. Its value is an object of filters. Query parameters that exclude
// messages begin with "not.".
const negation = "not"

// filterNames are the fields of a body for the filters that have one of these uses.
func filterNames(uses dlq.FilterUse) (names []string) {
	for _, field := range dlq.FilterFields {
		if field.Is(uses) {
			names = append(names, field.Name)
		}
	}
	return names
}

// filterParameters are the query parameters of the filters of a list.
func filterParameters() (names []string) {
	var negated []string
	for _, field := range dlq.FilterFields {
		if field.Is(dlq.InLists) {
			names = append(names, field.Parameter())
		}
		if field.Is(dlq.Negatable) {
			negated = append(negated, negation+"."+field.Parameter())
		}
	}
	return append(names, negated...)
}

// filter reads the filter for messages of a topic. Two requests for the same work get equal filters, even if they list values
// in another order.
func (b *body) filter(topic string) dlq.Filter {
	f := dlq.Filter{Topic: topic}
	for _, field := range dlq.FilterFields {
		b.filterField(&f, field)
	}
	if !f.CreatedFrom.IsZero() && !f.CreatedTo.IsZero() && !f.CreatedFrom.Before(f.CreatedTo) {
		// An empty interval is a mistake: the empty result would look as if there were no messages.
		b.reject("created_to", "must be later than created_from")
	}
	if len(f.Headers)+len(f.Payload) > dlq.MaxFilterParts {
		b.reject("payload", "headers and payload have at most %d values together", dlq.MaxFilterParts)
	}
	f.Not = b.negations()
	return f.Storable()
}

// filterField reads one filter. It refuses a value that would select all messages.
func (b *body) filterField(f *dlq.Filter, field dlq.FilterField) {
	name := field.Name
	if _, given := b.fields[name]; !given {
		return
	}
	switch value := field.At(f).(type) {
	case *string:
		*value, _ = b.filterText(name, field.Max, false)
	case *[]byte: // not nil: an empty key is a key
		if text, given := b.filterText(name, field.Max, true); given {
			*value = []byte(text)
		}
	case *time.Time:
		*value = b.instant(name)
	case *dlq.ID:
		*value = b.id(name, "group")
	case **int32:
		*value = new(int32(b.integer(name, 0, field.Max)))
	case **int64:
		*value = new(int64(b.integer(name, 0, field.Max)))
	case **bool:
		*value = new(b.flag(name))
	case *[]dlq.Status:
		*value = b.statuses(name)
	case *[]dlq.ID:
		*value = b.ids(name, field.Max)
	case *map[string]string:
		*value = b.texts(field)
	case *dlq.Verified:
		*value = wordOf(b, name, []dlq.Verified{dlq.VerifiedYes, dlq.VerifiedNo, dlq.VerifiedUnknown})
	}
}

// filterText reads a text. An empty text must not exclude messages, even if mayBeEmpty is set: a caller who sends an empty text
// by mistake would delete all other messages.
func (b *body) filterText(name string, limit int, mayBeEmpty bool) (string, bool) {
	text, given := b.text(name, limit)
	switch {
	case !given || text != "":
	case b.isNegation:
		b.reject(name, "must not be empty; omit it to exclude no messages")
	case !mayBeEmpty:
		b.reject(name, "must not be empty; omit it to choose all messages")
	}
	return text, given
}

// texts reads an object whose values are texts. It refuses an empty object, which would select all messages.
func (b *body) texts(field dlq.FilterField) map[string]string {
	inner := b.nested(field.Name)
	if inner.isNegation = b.isNegation; b.isQuery {
		inner.prefix = b.prefix + field.Part[:strings.Index(field.Part, ".")+1]
	}
	label := strings.TrimSuffix(inner.prefix, ".")
	texts := make(map[string]string, len(inner.fields))
	for _, name := range slices.Sorted(maps.Keys(inner.fields)) {
		if name == "" || len(name) > field.Max || !isText(name) {
			b.fieldErrors.reject(label, "must have names of 1 to %d bytes, UTF-8 without NUL", field.Max)
			continue
		}
		texts[name], _ = inner.filterText(name, field.Max, true)
	}
	switch {
	case inner.fields == nil || len(inner.fields) > 0:
	case b.isNegation:
		b.reject(field.Name, "must not be empty; omit it to exclude no messages")
	default:
		b.reject(field.Name, "must not be empty; omit it to choose all messages")
	}
	return texts
}

// negations reads the values that exclude messages. A field has one value or a list of values.
func (b *body) negations() (not []dlq.Filter) {
	inner := b.nested(negation, filterNames(dlq.Negatable)...)
	if inner == nil {
		return nil
	}
	if inner.fields != nil && len(inner.fields) == 0 {
		b.reject(negation, "must not be empty; omit it to exclude no messages")
	}
	for _, field := range dlq.FilterFields {
		raw, given := inner.fields[field.Name]
		if !given || !field.Is(dlq.Negatable) {
			continue
		}
		values := []json.RawMessage{raw}
		if raw[0] == '[' {
			values = elementsOf(raw)
		}
		if len(values) == 0 {
			inner.reject(field.Name, "must not be empty; omit it to exclude no messages")
		}
		for _, value := range values {
			var one dlq.Filter
			single := &body{fieldErrors: b.fieldErrors, prefix: inner.prefix, isQuery: b.isQuery, isNegation: true,
				fields: map[string]json.RawMessage{field.Name: value}}
			single.filterField(&one, field)
			not = append(not, one.Singles()...)
		}
	}
	if len(not) > dlq.MaxFilterNots {
		b.reject(negation, "has at most %d values together", dlq.MaxFilterNots)
	}
	return not
}

// readFields converts parameters to the fields of a body. A filter gets the type that it has in a body, and every other field
// is a text.
func (q *query) readFields() {
	fields, negated := map[string]any{}, map[string][]any{}
	for _, name := range slices.Sorted(maps.Keys(q.values)) {
		texts := q.values[name]
		bare, isNegated := strings.CutPrefix(name, negation+".")
		field, part := filterOf(bare)
		switch {
		case isNegated:
			for _, text := range texts {
				negated[field.Name] = append(negated[field.Name], valueOf(field, part, text))
			}
		case name == "status" || name == "ids":
			fields[name] = slices.Compact(slices.Sorted(strings.SplitSeq(strings.Join(texts, ","), ",")))
		case len(texts) > 1:
			q.reject(name, "is given %d times; give it once", len(texts))
		case field.Name == "":
			fields[name] = texts[0]
		default:
			fields[field.Name] = merged(fields[field.Name], valueOf(field, part, texts[0]))
		}
	}
	if len(negated) > 0 {
		fields[negation] = negated
	}
	q.fields = map[string]json.RawMessage{}
	for name, value := range fields {
		q.fields[name], _ = json.Marshal(value) // texts always encode
	}
}

// filterOf returns the filter of a parameter, and the header or the path that the parameter names. The field is empty if the
// parameter is no filter.
func filterOf(parameter string) (field dlq.FilterField, part string) {
	for _, field := range dlq.FilterFields {
		prefix := field.Part[:strings.Index(field.Part, ".")+1]
		if part, isPart := strings.CutPrefix(parameter, prefix); parameter == field.Name || prefix != "" && isPart {
			return field, part
		}
	}
	return field, ""
}

// valueOf is the value of a parameter, as the field has it in JSON.
func valueOf(field dlq.FilterField, part, text string) any {
	switch field.At(&dlq.Filter{}).(type) {
	case *map[string]string:
		return map[string]string{part: text}
	case **int32, **int64, **bool:
		if json.Valid([]byte(text)) {
			return json.RawMessage(text)
		}
	}
	return text
}

// merged adds the header or path of one parameter to the headers or paths of earlier parameters.
func merged(earlier, value any) any {
	texts, isMap := earlier.(map[string]string)
	more, _ := value.(map[string]string)
	if !isMap {
		return value
	}
	maps.Copy(texts, more)
	return texts
}

// filterView has the filters that are given, as a body has them. "not" has a list of values for each field.
type filterView map[string]any

func viewFilter(f *dlq.Filter) filterView {
	view, not := viewFields(f), map[string][]any{}
	for i := range f.Not {
		for name, value := range viewFields(&f.Not[i]) {
			not[name] = append(not[name], value)
		}
	}
	if len(not) > 0 {
		view[negation] = not
	}
	return view
}

func viewFields(f *dlq.Filter) filterView {
	view := filterView{}
	for _, field := range f.Given() {
		switch value := field.At(f).(type) {
		case *[]byte:
			view[field.Name] = string(*value)
		case *time.Time:
			view[field.Name] = timestamp(*value)
		default:
			if field.Is(dlq.InJobs) {
				view[field.Name] = value
			}
		}
	}
	return view
}
