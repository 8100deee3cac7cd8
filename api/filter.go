package api

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"dlqmanager/dlq"
)

// filterFields are the fields of a filter in the query of a list and in the body of a
// bulk retry. Besides, recordParameters are those of a query, and recordFields of a body.
var (
	filterFields = []string{"status", "error", "key", "created_from", "created_to", "group", "class", "consumer_group",
		"origin_partition", "origin_offset", "trace_id", "correlation_id", "suspicious"}
	recordParameters = []string{"header.NAME", "payload.PATH"}
	recordFields     = []string{"headers", "payload", "ids"}
)

// filterReader is implemented by query and body.
type filterReader interface {
	statuses() []dlq.Status
	// filterText reads a text; given is false when there is no filter.
	filterText(name string, limit int) (value string, given bool)
	instant(name string) time.Time
	ids() []dlq.ID
	// position reads a number from 0, and choice true or false; nil when it is not given.
	position(name string, most int64) *int64
	choice(name string) *bool
	// headers and payload read values by names and by paths.
	headers() map[string]string
	payload() map[string]string
	reject(field, format string, args ...any)
}

// readFilter reads the filter of a topic. It sorts sets, so that two requests for the
// same work are equal.
func readFilter(r filterReader, topic string) dlq.Filter {
	f := dlq.Filter{Topic: topic, Statuses: r.statuses()}
	f.ErrorContains, _ = r.filterText("error", maxBulkText)
	if key, given := r.filterText("key", maxBulkKey); given {
		f.Key = []byte(key) // not nil: an empty key is a key
	}
	f.CreatedFrom, f.CreatedTo = r.instant("created_from"), r.instant("created_to")
	if !f.CreatedFrom.IsZero() && !f.CreatedTo.IsZero() && !f.CreatedFrom.Before(f.CreatedTo) {
		// An empty interval is a mistake: its empty result would look as if there were
		// no messages.
		r.reject("created_to", "must be later than created_from")
	}
	f.Group = readGroup(r)
	f.Class, _ = r.filterText("class", maxBulkText)
	f.ConsumerGroup, _ = r.filterText("consumer_group", maxBulkText)
	f.TraceID, _ = r.filterText("trace_id", maxBulkText)
	f.CorrelationID, _ = r.filterText("correlation_id", maxBulkText)
	if partition := r.position("origin_partition", math.MaxInt32); partition != nil {
		f.OriginPartition = new(int32)
		*f.OriginPartition = int32(*partition)
	}
	f.OriginOffset, f.Suspicious = r.position("origin_offset", math.MaxInt64), r.choice("suspicious")
	f.Headers, f.Payload = r.headers(), r.payload()
	if len(f.Headers)+len(f.Payload) > dlq.MaxFilterParts {
		r.reject("payload", "headers and payload have at most %d values together", dlq.MaxFilterParts)
	}
	f.IDs = r.ids()
	slices.SortFunc(f.IDs, func(x, y dlq.ID) int { return slices.Compare(x[:], y[:]) })
	return f
}

// readGroup reads the id of a group. The zero id would choose all messages.
func readGroup(r filterReader) (id dlq.ID) {
	if text, given := r.filterText("group", maxBulkText); given {
		var err error
		if id, err = dlq.ParseID(text); err != nil || id.IsZero() {
			r.reject("group", "must be the UUID of a group")
		}
	}
	return id
}

// filterText reads a text without a limit, since a query is short anyway.
func (q *query) filterText(name string, _ int) (string, bool) {
	text, given := q.one(name)
	if given && text == "" && name != "error" && name != "key" && name != "group" {
		q.reject(name, "must not be empty")
	}
	return text, given
}

func (q *query) position(name string, most int64) *int64 {
	text, given := q.one(name)
	if !given {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		q.reject(name, "must be an integer from 0 to %d", most)
	}
	return &n
}

func (q *query) choice(name string) *bool {
	text, given := q.one(name)
	if !given {
		return nil
	}
	if text != "true" && text != "false" {
		q.reject(name, "must be true or false")
	}
	chosen := text == "true"
	return &chosen
}

func (q *query) headers() map[string]string { return q.withPrefix("header.") }
func (q *query) payload() map[string]string { return q.withPrefix("payload.") }

// withPrefix reads the parameters whose names have a prefix.
func (q *query) withPrefix(prefix string) (texts map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(q.values)) {
		rest, found := strings.CutPrefix(name, prefix)
		if !found || rest == "" {
			continue
		}
		if texts == nil {
			texts = map[string]string{}
		}
		texts[rest], _ = q.one(name)
	}
	return texts
}

// ids returns nil: only a body has ids.
func (q *query) ids() []dlq.ID { return nil }

// filterText reads a text that limits which messages are sent. Except for the key it
// must not be empty; an empty group is no UUID.
func (b *body) filterText(name string, limit int) (string, bool) {
	text, given := b.text(name, limit)
	if given && text == "" && name != "key" && name != "group" {
		b.reject(name, "must not be empty; omit it to choose all messages")
	}
	return text, given
}

func (b *body) position(name string, most int64) *int64 {
	if _, given := b.fields[name]; !given {
		return nil
	}
	n := int64(b.integer(name, int(most)))
	return &n
}

func (b *body) choice(name string) *bool {
	if _, given := b.fields[name]; !given {
		return nil
	}
	chosen := b.flag(name)
	return &chosen
}

func (b *body) headers() map[string]string { return b.texts("headers") }
func (b *body) payload() map[string]string { return b.texts("payload") }

// texts reads an object whose values are texts. An empty one would choose all messages.
func (b *body) texts(name string) map[string]string {
	raw, given := b.fields[name]
	if !given {
		return nil
	}
	inner := &body{fieldErrors: b.fieldErrors, prefix: b.prefix + name + "."}
	inner.object(b.prefix+name, raw, nil)
	texts := make(map[string]string, len(inner.fields))
	for _, field := range slices.Sorted(maps.Keys(inner.fields)) {
		if field == "" || len(field) > maxBulkText || !isText(field) {
			b.reject(name, "must have names of 1 to %d bytes, UTF-8 without NUL", maxBulkText)
			continue
		}
		texts[field], _ = inner.text(field, maxBulkText)
	}
	if inner.fields != nil && len(inner.fields) == 0 {
		b.reject(name, "must not be empty; omit it to choose all messages")
	}
	return texts
}

// filterView has null for filters that were not given. Those that no version had from the
// start are absent.
type filterView struct {
	Status      []dlq.Status `json:"status"`
	Error       *string      `json:"error"`
	Key         *string      `json:"key"`
	CreatedFrom *timestamp   `json:"created_from"`
	CreatedTo   *timestamp   `json:"created_to"`
	IDs         []dlq.ID     `json:"ids"`
	Group       *dlq.ID      `json:"group"`

	Class           string            `json:"class,omitempty"`
	ConsumerGroup   string            `json:"consumer_group,omitempty"`
	OriginPartition *int32            `json:"origin_partition,omitempty"`
	OriginOffset    *int64            `json:"origin_offset,omitempty"`
	TraceID         string            `json:"trace_id,omitempty"`
	CorrelationID   string            `json:"correlation_id,omitempty"`
	Suspicious      *bool             `json:"suspicious,omitempty"`
	Headers         map[string]string `json:"headers,omitempty"`
	Payload         map[string]string `json:"payload,omitempty"`
}

func viewFilter(f *dlq.Filter) filterView {
	view := filterView{
		Status: f.Statuses, Error: optionalText(f.ErrorContains),
		CreatedFrom: optionalTime(&f.CreatedFrom), CreatedTo: optionalTime(&f.CreatedTo), IDs: f.IDs, Group: optionalID(f.Group),
		Class: f.Class, ConsumerGroup: f.ConsumerGroup, OriginPartition: f.OriginPartition, OriginOffset: f.OriginOffset,
		TraceID: f.TraceID, CorrelationID: f.CorrelationID, Suspicious: f.Suspicious, Headers: f.Headers, Payload: f.Payload,
	}
	if f.Key != nil {
		key := string(f.Key)
		view.Key = &key
	}
	return view
}
