package store

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"strings"

	"dlqmanager/dlq"
)

// List is like Postgres.List.
func (m *Memory) List(_ context.Context, q dlq.ListQuery) (dlq.Page, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	size := max(q.PageSize, 1)
	skip := 0
	if q.After == nil {
		skip = size * (max(q.Page, 1) - 1)
	}
	var page dlq.Page
	needle := lowered(q.ErrorContains)
	for e := range m.walk(q.OldestFirst) {
		if !matches(e, q.Filter, needle) {
			continue
		}
		page.Total++
		if q.After != nil && !isBeyond(e.Place(), q) {
			continue
		}
		switch {
		case skip > 0:
			skip--
		case len(page.Messages) < size:
			page.Messages = append(page.Messages, e.Message)
		default:
			page.HasNext = true
		}
	}
	page.TotalExact = page.Total <= dlq.CountLimit
	page.Total = min(page.Total, dlq.CountLimit)
	return page, nil
}

// isBeyond reports whether a place comes after the query's.
func isBeyond(place dlq.Place, q dlq.ListQuery) bool {
	if q.OldestFirst {
		return place.Compare(*q.After) > 0
	}
	return place.Compare(*q.After) < 0
}

// walk gives every living message in the order of lists or against it. It is that
// of arrival too: time only goes on here.
func (m *Memory) walk(oldestFirst bool) iter.Seq[*entry] {
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

// lowered is how a part of an error message is looked for.
func lowered(part string) string { return strings.ToLower(text(part)) }

// matches applies the filter; needle is its ErrorContains in lower case.
func matches(e *entry, f dlq.Filter, needle string) bool {
	return inTopic(e, f.Topic) &&
		(len(f.Statuses) == 0 || slices.Contains(f.Statuses, e.Status)) &&
		(f.Key == nil || e.Record.Key != nil && bytes.Equal(f.Key, e.Record.Key)) &&
		(f.CreatedFrom.IsZero() || !e.CreatedAt.Before(f.CreatedFrom)) &&
		(f.CreatedTo.IsZero() || e.CreatedAt.Before(f.CreatedTo)) &&
		(needle == "" || strings.Contains(strings.ToLower(e.ErrorMessage), needle))
}

func inTopic(e *entry, topic string) bool { return e.DLQTopic == topic || e.OriginalTopic == topic }

// Topics is like Postgres.Topics.
func (m *Memory) Topics(context.Context) ([]dlq.TopicSummary, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	topics := topicSummaries{}
	for _, e := range m.order {
		topics.add(topicCount{topic: e.DLQTopic, status: e.Status, count: 1, newest: e.Place(), originalTopic: e.OriginalTopic,
			oldest: e.CreatedAt})
	}
	return topics.sorted(), nil
}
