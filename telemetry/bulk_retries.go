package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// bulkInterval is short, so that people can watch a bulk retry.
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

// NewBulkCollector exports the progress of the bulk retries that have not ended, by the topic of the request. running is
// Store.RunningRetries. The caller must register the collector. While the store is unavailable, the progress is out of date.
// dlq_messages_counted_timestamp_seconds has the time of the last count.
func NewBulkCollector(running func(context.Context) ([]dlq.Job, error), logger *zap.Logger) prometheus.Collector {
	return newCollector("the bulk retries", bulkInterval, running, logger, exportBulks, bulkMatched, bulkDone, bulkBack, bulkRate, bulkPaused)
}

// exportBulks adds up the bulk retries of each topic. A topic counts as paused when one of its bulk retries is paused.
func exportBulks(bulks []dlq.Job, _ time.Time, to gauges) {
	var labels dlq.TopicLabels
	for i := range bulks {
		b := &bulks[i]
		if b.State.IsFinal() {
			continue
		}
		topic := labels.Of(b.Spec.Topic)
		to.add(bulkMatched, float64(b.Matched), topic)
		to.add(bulkDone, float64(b.Counts.Done()), topic)
		to.add(bulkBack, float64(b.CameBack), topic)
		to.add(bulkRate, b.RecentPerSecond, topic)
		to.raise(bulkPaused, flag(b.State == dlq.JobPaused), topic)
	}
}
