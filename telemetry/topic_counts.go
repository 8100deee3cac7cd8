package telemetry

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

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
