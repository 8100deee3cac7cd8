package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// Counting every message costs the database, so it is done at most once in
// backlogInterval, however often and by however many it is scraped.
const backlogInterval = 15 * time.Second

var (
	backlogMessages = prometheus.NewDesc("dlq_messages",
		"Messages in the store, by dead-letter topic and status. Every replica tells the same.", []string{"topic", "status"}, nil)
	backlogOldest = prometheus.NewDesc("dlq_oldest_pending_age_seconds",
		"Age of the oldest PENDING message; absent when nothing is pending.", []string{"topic"}, nil)
	backlogCounted = prometheus.NewDesc("dlq_messages_counted_timestamp_seconds",
		"When dlq_messages was last counted, in Unix time. It stands still while the database is away.", nil, nil)
)

// backlogCollector tells how many messages there are and how old the oldest
// pending one is. While the store is away it tells what it last knew.
type backlogCollector struct {
	topics *latest[[]dlq.TopicSummary]
}

// NewBacklogCollector counts with topics, which is Store.Topics. The caller
// registers it.
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
		return // nothing known: absent is honest, zero would not be
	}
	for _, summary := range summaries {
		for _, status := range dlq.Statuses {
			metrics <- prometheus.MustNewConstMetric(backlogMessages, prometheus.GaugeValue,
				float64(summary.Counts[status]), summary.DLQTopic, string(status))
		}
		if summary.OldestPending != nil {
			age := max(time.Since(*summary.OldestPending), 0)
			metrics <- prometheus.MustNewConstMetric(backlogOldest, prometheus.GaugeValue, age.Seconds(), summary.DLQTopic)
		}
	}
	metrics <- prometheus.MustNewConstMetric(backlogCounted, prometheus.GaugeValue, float64(counted.UnixMilli())/1000)
}
