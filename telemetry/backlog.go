package telemetry

import (
	"context"
	"fmt"
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

var unpublishedMessages = prometheus.NewDesc("dlq_exhausted_unpublished",
	fmt.Sprintf("Exhausted messages that are not in their archive topic yet, by dead-letter topic. %d means that many or more. "+
		"Every replica has the same value.", dlq.CountLimit), []string{"topic"}, nil)

var heldDeadMessages = prometheus.NewDesc("dlq_held_dead_messages",
	"DEAD messages of held groups, by dead-letter topic. Every replica has the same value.", []string{"topic"}, nil)

// NewUnpublishedCollector reads the counts with read, which is Store.Unpublished. The caller
// registers the collector.
func NewUnpublishedCollector(read func(context.Context) ([]dlq.TopicCount, error), logger *zap.Logger) prometheus.Collector {
	return newTopicCountCollector(unpublishedMessages, "exhausted messages", read, logger)
}

// NewHeldDeadCollector reads the counts with read, which is Store.HeldDead. The caller
// registers the collector.
func NewHeldDeadCollector(read func(context.Context) ([]dlq.TopicCount, error), logger *zap.Logger) prometheus.Collector {
	return newTopicCountCollector(heldDeadMessages, "DEAD messages of held groups", read, logger)
}

// newTopicCountCollector exports a number of messages. A topic without such messages is absent.
func newTopicCountCollector(desc *prometheus.Desc, what string, read func(context.Context) ([]dlq.TopicCount, error), logger *zap.Logger) prometheus.Collector {
	export := func(counts []dlq.TopicCount, _ time.Time, set gauge) {
		sums := map[string]int64{}
		var topics dlq.TopicLabels
		for _, c := range counts {
			sums[topics.Of(c.DLQTopic)] += c.Messages
		}
		for topic, messages := range sums {
			set(desc, float64(messages), topic)
		}
	}
	return newCollector(what, backlogInterval, read, logger, export, desc)
}
