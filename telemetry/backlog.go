package telemetry

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// backlogInterval is the shortest time between two counts of the messages. It does not depend on the scrapes, since a count
// loads the database.
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

// NewBacklogCollector exports the number of messages and the age of the oldest PENDING message. topics is Store.Topics, which
// reads the counts. The caller must register the collector.
func NewBacklogCollector(topics func(context.Context) ([]dlq.TopicSummary, error), logger *zap.Logger) prometheus.Collector {
	return newCollector("the backlog", backlogInterval, topics, logger, exportBacklog, backlogMessages, backlogOldest, backlogCounted)
}

func exportBacklog(summaries []dlq.TopicSummary, counted time.Time, to gauges) {
	var topics dlq.TopicLabels
	for i := range summaries {
		topic := topics.Of(summaries[i].DLQTopic)
		for _, status := range dlq.Statuses {
			to.add(backlogMessages, float64(summaries[i].Counts[status]), topic, string(status))
		}
		if oldest := summaries[i].OldestPending; oldest != nil {
			to.raise(backlogOldest, ageOf(*oldest), topic)
		}
	}
	to.add(backlogCounted, float64(counted.UnixMilli())/1000)
}

var unpublishedMessages = prometheus.NewDesc("dlq_exhausted_unpublished",
	fmt.Sprintf("Exhausted messages that are not in their archive topic yet, by dead-letter topic. %d means that many or more. "+
		"Every replica has the same value.", dlq.CountLimit), []string{"topic"}, nil)

var heldDeadMessages = prometheus.NewDesc("dlq_held_dead_messages",
	"DEAD messages of held groups, by dead-letter topic. Every replica has the same value.", []string{"topic"}, nil)

// NewUnpublishedCollector exports the number of exhausted messages that have not been published to their archive topic yet.
// read is Store.Unpublished. The caller must register the collector.
func NewUnpublishedCollector(read func(context.Context) ([]dlq.TopicCount, error), logger *zap.Logger) prometheus.Collector {
	return newTopicCountCollector(unpublishedMessages, "exhausted messages", read, logger)
}

// NewHeldDeadCollector exports the number of DEAD messages in held groups. read is Store.HeldDead. The caller must register the
// collector.
func NewHeldDeadCollector(read func(context.Context) ([]dlq.TopicCount, error), logger *zap.Logger) prometheus.Collector {
	return newTopicCountCollector(heldDeadMessages, "DEAD messages of held groups", read, logger)
}

// newTopicCountCollector exports a number of messages for each topic. Topics with the number zero are absent.
func newTopicCountCollector(desc *prometheus.Desc, what string, read func(context.Context) ([]dlq.TopicCount, error), logger *zap.Logger) prometheus.Collector {
	export := func(counts []dlq.TopicCount, _ time.Time, to gauges) {
		var topics dlq.TopicLabels
		for _, c := range counts {
			to.add(desc, float64(c.Messages), topics.Of(c.DLQTopic))
		}
	}
	return newCollector(what, backlogInterval, read, logger, export, desc)
}
