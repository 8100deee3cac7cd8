package store

import (
	"slices"
	"strings"
	"time"

	"dlqmanager/dlq"
)

// topicCount is what there is of one topic in one status.
type topicCount struct {
	topic         string
	status        dlq.Status
	count         int64
	newest        dlq.Place
	originalTopic string // of the newest
	oldest        time.Time
}

// topicSummaries joins counts to summaries.
type topicSummaries map[string]*topicSummary

type topicSummary struct {
	dlq.TopicSummary
	newest dlq.Place
}

func (s topicSummaries) add(c topicCount) {
	summary := s[c.topic]
	if summary == nil {
		summary = &topicSummary{TopicSummary: dlq.TopicSummary{DLQTopic: c.topic, Counts: map[dlq.Status]int64{}}}
		s[c.topic] = summary
	}
	summary.Counts[c.status] += c.count
	if c.newest.Compare(summary.newest) > 0 {
		summary.newest = c.newest
		summary.OriginalTopic, summary.NewestArrival = c.originalTopic, c.newest.CreatedAt.UTC()
	}
	if c.status == dlq.StatusPending && (summary.OldestPending == nil || c.oldest.Before(*summary.OldestPending)) {
		summary.OldestPending = utc(&c.oldest)
	}
}

func (s topicSummaries) sorted() []dlq.TopicSummary {
	list := make([]dlq.TopicSummary, 0, len(s))
	for _, summary := range s {
		list = append(list, summary.TopicSummary)
	}
	slices.SortFunc(list, func(a, b dlq.TopicSummary) int { return strings.Compare(a.DLQTopic, b.DLQTopic) })
	return list
}
