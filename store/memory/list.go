package memory

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"

	"dlqmanager/dlq"
)

// List is like postgres.Store.List.
func (m *Store) List(_ context.Context, q dlq.ListQuery) (dlq.Page, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if q.IsSearch() {
		return m.search(&q), nil
	}
	size := max(q.PageSize, 1)
	skip := 0
	if q.After == nil {
		skip = size * (max(q.Page, 1) - 1)
	}
	var page dlq.Page
	var room dlq.ListRoom
	for e := range m.inListOrder(&q) {
		if !matches(e, &q.Filter) || !m.matchesVerified(e, &q.Filter) {
			continue
		}
		page.Total++
		if q.After != nil && !isBeyond(e.Keyset(), q) {
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

// search is like that of postgres.Store.
func (m *Store) search(q *dlq.ListQuery) dlq.Page {
	page := dlq.Page{HasNext: true, Searched: &dlq.Searched{}}
	limit := cmp.Or(q.SearchLimit, dlq.SearchLimit)
	scope, rest := q.SearchScope()
	var room dlq.ListRoom
	for e := range m.inListOrder(q) {
		if !matches(e, &scope) || q.After != nil && !isBeyond(e.Keyset(), *q) {
			continue
		}
		if len(page.Messages) == max(q.PageSize, 1) || page.Searched.Messages == limit {
			page.Total = int64(len(page.Messages))
			return page
		}
		listed, at := e.Listed(), e.Keyset()
		if matches(e, &rest) && m.matchesVerified(e, &rest) {
			if !room.Take(listed.ListSize()) {
				page.Total = int64(len(page.Messages))
				return page
			}
			page.Messages = append(page.Messages, listed)
		}
		page.Searched.Messages++
		page.Searched.Last = &at
	}
	page.Total = int64(len(page.Messages))
	page.Searched.IsComplete = len(page.Messages) < max(q.PageSize, 1) && page.Searched.Messages < limit
	page.HasNext, page.TotalExact = !page.Searched.IsComplete, page.Searched.IsComplete && q.After == nil
	return page
}

// isBeyond reports whether a key comes after that of the query.
func isBeyond(key dlq.Keyset, q dlq.ListQuery) bool {
	if q.OldestFirst {
		return key.Compare(*q.After) > 0
	}
	return key.Compare(*q.After) < 0
}

// inListOrder iterates over the messages that a list reads, in its order. That
// is the order of arrival, because this store's clock never goes back.
func (m *Store) inListOrder(q *dlq.ListQuery) iter.Seq[*entry] {
	order := m.scope(&q.Filter)
	if q.OldestFirst {
		return slices.Values(order)
	}
	return func(yield func(*entry) bool) {
		for _, e := range slices.Backward(order) {
			if !yield(e) {
				return
			}
		}
	}
}

// scope has the messages that a filter selects among, in the order of arrival.
func (m *Store) scope(f *dlq.Filter) []*entry {
	if !f.Archived {
		return m.order
	}
	return slices.SortedFunc(maps.Values(m.archive), func(a, b *entry) int { return cmp.Compare(a.Seq, b.Seq) })
}

// Topics is like postgres.Store.Topics.
func (m *Store) Topics(ctx context.Context) ([]dlq.TopicSummary, error) {
	return m.TopicsWithin(ctx, "")
}

// TopicsWithin is like postgres.Store.TopicsWithin.
func (m *Store) TopicsWithin(_ context.Context, within string) ([]dlq.TopicSummary, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	topics := map[string]*dlq.TopicSummary{}
	topic := func(name string) *dlq.TopicSummary {
		if topics[name] == nil {
			topics[name] = &dlq.TopicSummary{DLQTopic: name, Counts: map[dlq.Status]int64{}}
		}
		return topics[name]
	}
	for _, e := range m.order { // the oldest first
		if !isWithin(e.DLQTopic, within) {
			continue
		}
		t := topic(e.DLQTopic)
		t.Counts[e.Status]++
		t.OriginalTopic, t.NewestArrival = e.OriginalTopic, e.CreatedAt
		if e.Status == dlq.StatusPending && t.OldestPending == nil {
			t.OldestPending = &e.CreatedAt
		}
	}
	for _, p := range m.offsets {
		if p.lost > 0 && p.topic != "" && isWithin(p.topic, within) {
			t := topic(p.topic)
			t.Lost += p.lost
			if t.LostAt == nil || t.LostAt.Before(p.lostAt) {
				t.LostAt = &p.lostAt
			}
		}
	}
	list := make([]dlq.TopicSummary, 0, len(topics))
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		list = append(list, *topics[name])
	}
	return list, nil
}
