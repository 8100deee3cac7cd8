package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// Counting the messages loads the database, so that happens at most once in
// backlogInterval, however often the metrics are scraped.
const backlogInterval = 15 * time.Second

var (
	backlogMessages = prometheus.NewDesc("dlq_messages",
		"Messages in the store, by dead-letter topic and status. Topics beyond the first 1000 are \"other\". "+
			"Every replica has the same value.", []string{"topic", "status"}, nil)
	backlogOldest = prometheus.NewDesc("dlq_oldest_pending_age_seconds",
		"Age of the oldest PENDING message; absent when nothing is pending.", []string{"topic"}, nil)
	backlogCounted = prometheus.NewDesc("dlq_messages_counted_timestamp_seconds",
		"When dlq_messages was last counted, in Unix time. It does not change while the database is unavailable.", nil, nil)
)

// NewBacklogCollector exports the number of messages and the age of the oldest PENDING message. The collector
// reads the counts with topics, which is Store.Topics. The caller registers the collector.
func NewBacklogCollector(topics func(context.Context) ([]dlq.TopicSummary, error), logger *zap.Logger) prometheus.Collector {
	return newCollector("the backlog", backlogInterval, topics, logger, exportBacklog, backlogMessages, backlogOldest, backlogCounted)
}

func exportBacklog(summaries []dlq.TopicSummary, counted time.Time, set gauge) {
	type sum struct {
		counts map[dlq.Status]int64
		oldest *time.Time
	}
	sums := map[string]sum{}
	var topics dlq.TopicLabels
	for i := range summaries {
		topic := topics.Of(summaries[i].DLQTopic)
		s := sums[topic]
		if s.counts == nil {
			s.counts = map[dlq.Status]int64{}
		}
		for _, status := range dlq.Statuses {
			s.counts[status] += summaries[i].Counts[status]
		}
		s.oldest = earlier(s.oldest, summaries[i].OldestPending)
		sums[topic] = s
	}
	for topic, s := range sums {
		for _, status := range dlq.Statuses {
			set(backlogMessages, float64(s.counts[status]), topic, string(status))
		}
		if s.oldest != nil {
			set(backlogOldest, ageOf(*s.oldest), topic)
		}
	}
	set(backlogCounted, float64(counted.UnixMilli())/1000)
}
