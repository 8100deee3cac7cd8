package memory

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"regexp"
	"slices"

	"dlqmanager/dlq"
)

// List is like postgres.Store.List, but it filters by topic and status only. It returns an error
// for other filters, since a filter that is ignored would select everything.
func (m *Store) List(_ context.Context, q dlq.ListQuery) (dlq.Page, error) {
	if known := (dlq.Filter{Topic: q.Topic, Statuses: q.Statuses, Within: q.Within}); !reflect.DeepEqual(q.Filter, known) {
		return dlq.Page{}, fmt.Errorf("store: messages in memory are listed by topic and status only, not by %+v", q.Filter)
	}
	within, err := regexp.Compile(q.Within) // the topics of a principal; empty for all
	if err != nil {
		return dlq.Page{}, fmt.Errorf("store: list messages: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	size := max(q.PageSize, 1)
	skip := 0
	if q.After == nil {
		skip = size * (max(q.Page, 1) - 1)
	}
	statuses := q.EffectiveStatuses()
	var page dlq.Page
	var room dlq.ListRoom
	for e := range m.inListOrder(q.OldestFirst) {
		if e.DLQTopic != q.Topic && e.OriginalTopic != q.Topic || !slices.Contains(statuses, e.Status) || !within.MatchString(e.DLQTopic) {
			continue
		}
		page.Total++
		if q.After != nil && !isBeyond(e.Keyset(), &q) {
			continue
		}
		listed := e.Listed()
		switch {
		case skip > 0:
			skip--
		case len(page.Messages) < size && room.Take(listed.ListSize()):
			page.Messages = append(page.Messages, listed)
		default:
			page.HasNext = true
		}
	}
	page.TotalExact = page.Total <= dlq.CountLimit
	page.Total = min(page.Total, dlq.CountLimit)
	return page, nil
}

// isBeyond reports whether a key comes after the cursor of the query.
func isBeyond(key dlq.Keyset, q *dlq.ListQuery) bool {
	if q.OldestFirst {
		return key.Compare(*q.After) > 0
	}
	return key.Compare(*q.After) < 0
}

// inListOrder iterates by time of arrival. The order of arrival is the same, because the clock of
// this store never goes back.
func (m *Store) inListOrder(oldestFirst bool) iter.Seq[*entry] {
	if oldestFirst {
		return slices.Values(m.order)
	}
	return func(yield func(*entry) bool) {
		for _, e := range slices.Backward(m.order) {
			if !yield(e) {
				return
			}
		}
	}
}
