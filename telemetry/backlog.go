package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// Counting the messages loads the database, so it happens at most once in
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

// backlogCollector exports the number of messages and the age of the oldest PENDING one.
// While the store is unavailable it exports the last known values.
type backlogCollector struct {
	topics *latest[[]dlq.TopicSummary]
}

// NewBacklogCollector reads the counts with topics, which is Store.Topics. The caller
// registers the collector.
func NewBacklogCollector(topics func(context.Context) ([]dlq.TopicSummary, error), logger *zap.Logger) prometheus.Collector {
	return &backlogCollector{topics: &latest[[]dlq.TopicSummary]{
		what: "the backlog", read: topics, interval: backlogInterval, logger: logger,
	}}
}

// Describe implements prometheus.Collector.
func (b *backlogCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- backlogMessages
	descs <- backlogOldest
	descs <- backlogCounted
}

// Collect implements prometheus.Collector.
func (b *backlogCollector) Collect(metrics chan<- prometheus.Metric) {
	summaries, counted := b.topics.get()
	if counted.IsZero() {
		return // unknown values are absent; zero would be wrong
	}
	type sum struct {
		counts map[dlq.Status]int64
		oldest *time.Time
	}
	sums := map[string]sum{}
	var topics boundedTopics
	for i := range summaries {
		topic := topics.label(summaries[i].DLQTopic)
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
			metrics <- prometheus.MustNewConstMetric(backlogMessages, prometheus.GaugeValue, float64(s.counts[status]), topic, string(status))
		}
		if s.oldest != nil {
			metrics <- prometheus.MustNewConstMetric(backlogOldest, prometheus.GaugeValue, ageOf(*s.oldest), topic)
		}
	}
	metrics <- prometheus.MustNewConstMetric(backlogCounted, prometheus.GaugeValue, float64(counted.UnixMilli())/1000)
}
