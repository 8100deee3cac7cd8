package api

import (
	"slices"
	"time"

	"dlqmanager/dlq"
)

// filterFields are the fields of a filter in the query of a list and in the body of a
// bulk retry. A body also has ids.
var filterFields = []string{"status", "error", "key", "created_from", "created_to", "group"}

// filterReader is implemented by query and body.
type filterReader interface {
	statuses() []dlq.Status
	// filterText reads a text; given is false when there is no filter.
	filterText(name string, limit int) (value string, given bool)
	instant(name string) time.Time
	ids() []dlq.ID
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
func (q *query) filterText(name string, _ int) (string, bool) { return q.one(name) }

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

// filterView has null for filters that were not given.
type filterView struct {
	Status      []dlq.Status `json:"status"`
	Error       *string      `json:"error"`
	Key         *string      `json:"key"`
	CreatedFrom *timestamp   `json:"created_from"`
	CreatedTo   *timestamp   `json:"created_to"`
	IDs         []dlq.ID     `json:"ids"`
	Group       *dlq.ID      `json:"group"`
}

func viewFilter(f *dlq.Filter) filterView {
	view := filterView{
		Status: f.Statuses, Error: optionalText(f.ErrorContains),
		CreatedFrom: optionalTime(&f.CreatedFrom), CreatedTo: optionalTime(&f.CreatedTo), IDs: f.IDs, Group: optionalID(f.Group),
	}
	if f.Key != nil {
		key := string(f.Key)
		view.Key = &key
	}
	return view
}
