package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"dlqmanager/dlq"
)

// exhausted is a row of dlq_exhausted_outbox.
type exhausted struct {
	dlqTopic string
	dlq.Exhausted
}

// keepExhausted keeps a message that has just ended as exhausted, until it is published.
func (m *Store) keepExhausted(e *entry, lastError string, at time.Time) {
	if m.Outbox && e.Resolution == dlq.ResolutionExhausted && e.DLQTopic != "" {
		m.outbox[e.ID] = exhausted{dlqTopic: e.DLQTopic, Exhausted: dlq.Exhausted{ID: e.ID, Seq: e.Seq, EndedAt: at,
			RetryCount: e.RetryCount, MaxRetries: e.MaxRetries, Error: dlq.StorableText(lastError)}}
	}
}

// ExhaustedTopics is like postgres.Store.ExhaustedTopics.
func (m *Store) ExhaustedTopics(ctx context.Context) (topics []string, err error) {
	unpublished, err := m.Unpublished(ctx)
	for _, u := range unpublished {
		topics = append(topics, u.DLQTopic)
	}
	return topics, err
}

// Unpublished is like postgres.Store.Unpublished.
func (m *Store) Unpublished(context.Context) (unpublished []dlq.TopicCount, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := map[string]int64{}
	for _, e := range m.outbox {
		counts[e.dlqTopic]++
	}
	for _, topic := range slices.Sorted(maps.Keys(counts)) {
		unpublished = append(unpublished, dlq.TopicCount{DLQTopic: topic, Messages: min(counts[topic], dlq.CountLimit)})
	}
	return unpublished, nil
}

// PublishExhausted is like postgres.Store.PublishExhausted.
func (m *Store) PublishExhausted(_ context.Context, topic string, after dlq.Exhausted, publish func([]dlq.Exhausted) []bool) ([]dlq.Exhausted, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.publishing {
		return nil, dlq.ErrBlocked
	}
	page := m.exhaustedPage(topic, after)
	if len(page) == 0 {
		return nil, nil
	}
	m.publishing = true
	m.mu.Unlock()
	published := publish(page)
	m.mu.Lock()
	m.publishing = false
	for i, e := range page {
		if published[i] && m.outbox[e.ID].EndedAt.Equal(e.EndedAt) {
			delete(m.outbox, e.ID)
		}
	}
	return page, nil
}

// exhaustedPage are the first messages of the topic after the given one, with their
// records.
func (m *Store) exhaustedPage(topic string, after dlq.Exhausted) (page []dlq.Exhausted) {
	for _, e := range m.outbox {
		if e.dlqTopic == topic && e.Seq > after.Seq {
			page = append(page, e.Exhausted)
		}
	}
	slices.SortFunc(page, func(a, b dlq.Exhausted) int { return cmp.Compare(a.Seq, b.Seq) })
	var bytes int64
	for i := range page {
		e := cmp.Or(m.byID[page[i].ID], m.archive[page[i].ID])
		if page[i].Deleted = e == nil; !page[i].Deleted {
			page[i].Record = e.Record
			page[i].Record.Timestamp = time.Time{}
			bytes += sizeOf(&e.Record)
		}
		if i == dlq.PageSize || i > 0 && bytes > dlq.PageBytes {
			return page[:i]
		}
	}
	return page
}
