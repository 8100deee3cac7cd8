package telemetry

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

var unpublishedMessages = prometheus.NewDesc("dlq_exhausted_unpublished",
	fmt.Sprintf("Exhausted messages that are not in their archive topic yet, by dead-letter topic. %d means that many or more. "+
		"Every replica has the same value.", dlq.CountLimit), []string{"topic"}, nil)

// unpublishedCollector exports the number of exhausted messages that are not published. A
// topic without such messages is absent.
type unpublishedCollector struct {
	counts *latest[[]dlq.Unpublished]
}

// NewUnpublishedCollector reads the counts with read, which is Store.Unpublished. The caller
// registers the collector.
func NewUnpublishedCollector(read func(context.Context) ([]dlq.Unpublished, error), logger *zap.Logger) prometheus.Collector {
	return &unpublishedCollector{counts: &latest[[]dlq.Unpublished]{
		what: "exhausted messages", read: read, interval: backlogInterval, logger: logger,
	}}
}

// Describe implements prometheus.Collector.
func (u *unpublishedCollector) Describe(descs chan<- *prometheus.Desc) { descs <- unpublishedMessages }

// Collect implements prometheus.Collector.
func (u *unpublishedCollector) Collect(metrics chan<- prometheus.Metric) {
	counts, _ := u.counts.get()
	for _, c := range counts {
		metrics <- prometheus.MustNewConstMetric(unpublishedMessages, prometheus.GaugeValue, float64(c.Messages), c.DLQTopic)
	}
}
