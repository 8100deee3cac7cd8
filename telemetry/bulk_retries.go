package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// bulkInterval is short, so that a bulk retry can be watched.
const bulkInterval = 5 * time.Second

var (
	bulkMatched = bulkDesc("matched", "Messages that the topic's unfinished bulk retry found retryable when it started.")
	bulkDone    = bulkDesc("done", "Messages that the topic's unfinished bulk retry has finished: sent back, failed, dead or skipped.")
	bulkBack    = bulkDesc("came_back", "Messages that the topic's unfinished bulk retry sent and that failed again.")
	bulkRate    = bulkDesc("per_second", "Messages per second that the topic's unfinished bulk retry has finished recently.")
	bulkPaused  = bulkDesc("paused", "1 while the topic's unfinished bulk retry is paused, else 0.")
)

func bulkDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("dlq_bulk_retry_"+name, help+" Every replica has the same value.", []string{"topic"}, nil)
}

// NewBulkCollector exports the progress of the unfinished bulk retries, by the topic that they were
// requested for. The jobs come from running, which is Store.RunningRetries. The caller registers
// the collector. While the store is unavailable, dlq_messages_counted_timestamp_seconds shows that.
func NewBulkCollector(running func(context.Context) ([]dlq.Job, error), logger *zap.Logger) prometheus.Collector {
	return newCollector("the bulk retries", bulkInterval, running, logger, exportBulks, bulkMatched, bulkDone, bulkBack, bulkRate, bulkPaused)
}

func exportBulks(bulks []dlq.Job, _ time.Time, set gauge) {
	for topic, sum := range byTopic(bulks) {
		set(bulkMatched, float64(sum.matched), topic)
		set(bulkDone, float64(sum.done), topic)
		set(bulkBack, float64(sum.cameBack), topic)
		set(bulkRate, sum.perSecond, topic)
		set(bulkPaused, flag(sum.isPaused), topic)
	}
}

// bulkSum is the sum of the bulk retries of a topic.
type bulkSum struct {
	matched, done, cameBack int64
	perSecond               float64
	isPaused                bool
}

// byTopic adds up the bulk retries of each topic, since two values with the same label would
// fail the whole scrape. A topic is paused when any of its bulk retries is.
func byTopic(bulks []dlq.Job) map[string]bulkSum {
	topics := map[string]bulkSum{}
	var labels dlq.TopicLabels
	for i := range bulks {
		b := &bulks[i]
		if b.State.IsFinal() {
			continue
		}
		topic := labels.Of(b.Spec.Topic)
		sum := topics[topic]
		topics[topic] = bulkSum{
			sum.matched + b.Matched, sum.done + b.Counts.Done(), sum.cameBack + b.CameBack,
			sum.perSecond + b.RecentPerSecond, sum.isPaused || b.State == dlq.JobPaused,
		}
	}
	return topics
}
