package kafka

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// These stand beside the categories in the label "result".
const (
	resultDelivered = "delivered"
	resultBlocked   = "held_back"
	resultClosed    = "target_closed"
)

type publishMetrics struct {
	duration prometheus.Histogram
	total    *prometheus.CounterVec
	topics   boundedLabel
}

func newPublishMetrics(reg prometheus.Registerer) *publishMetrics {
	m := &publishMetrics{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "dlq_republish_duration_seconds",
			Help:    "Time from handing a message to the publisher until its target acknowledged it.",
			Buckets: []float64{.002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20},
		}),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_republished_total",
			Help: "Messages sent to their original topic, by result: delivered, held_back behind a failed one of their key, " +
				"target_closed when the target was known to refuse, or the category of the error. " +
				"Topics beyond the first 1000 are counted as \"other\".",
		}, []string{"topic", "result"}),
	}
	if reg != nil {
		reg.MustRegister(m.duration, m.total)
	}
	return m
}

func (m *publishMetrics) count(topic, result string) {
	m.total.WithLabelValues(m.topics.of(topic), result).Inc()
}

// A message's headers name its original topic, and whoever writes to a
// dead-letter topic writes those. Without a bound, anyone could fill the memory
// of this process and of whatever scrapes it.
const (
	maxTopicLabels  = 1000
	otherTopicLabel = "other"
)

// boundedLabel lets the first maxTopicLabels topics have a label of their own.
type boundedLabel struct {
	mu   sync.Mutex
	seen map[string]struct{}
}

func (b *boundedLabel) of(topic string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.seen[topic]; ok {
		return topic
	}
	if len(b.seen) >= maxTopicLabels {
		return otherTopicLabel
	}
	if b.seen == nil {
		b.seen = map[string]struct{}{}
	}
	b.seen[topic] = struct{}{}
	return topic
}
