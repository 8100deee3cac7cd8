package activities

import (
	"github.com/prometheus/client_golang/prometheus"

	"dlqmanager/dlq"
)

// Metrics are the metrics of activities.
type Metrics struct {
	results  *prometheus.CounterVec
	archived prometheus.Counter
	purged   prometheus.Counter
	orphans  prometheus.Counter
	changed  *prometheus.CounterVec
	folded   prometheus.Gauge
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_retried_total",
			Help: "Retries that ended, by result (delivered, failed, rejected, skipped, waiting, returned) and error category.",
		}, []string{"result", "category"}),
		archived: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dlq_archived_total", Help: "Messages moved to the archive table.",
		}),
		purged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dlq_purged_total", Help: "Archived messages deleted for good.",
		}),
		orphans: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dlq_orphans_released_total", Help: "Claims released because their workflow was gone.",
		}),
		changed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_changed_total", Help: "Messages that jobs changed, by kind (revive, dead, delete, restore).",
		}, []string{"kind"}),
		folded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_counts_folded_timestamp_seconds",
			Help: "When this process last added the recent changes to the counts of topics and groups, or was started, in Unix time.",
		}),
	}
	registerer.MustRegister(m.results, m.archived, m.purged, m.orphans, m.changed, m.folded)
	m.folded.SetToCurrentTime()
	for _, kind := range dlq.JobKinds[1:] { // all but retry
		m.changed.WithLabelValues(string(kind)) // so that each kind has a value before its first message
	}
	// The series below start at 0, since a rate does not see the value with which a series begins.
	m.results.WithLabelValues(string(dlq.ResultDelivered), "")
	for _, category := range []dlq.Category{dlq.CategoryTransient, dlq.CategoryRateLimit, dlq.CategoryAuth, dlq.CategoryBadData} {
		m.results.WithLabelValues(string(category.Result()), string(category))
	}
	return m
}

func (m *Metrics) retried(result dlq.Result, category dlq.Category, messages int) {
	m.results.WithLabelValues(string(result), string(category)).Add(float64(messages))
}

// Released counts claims that were released because their workflow is gone.
func (m *Metrics) Released(messages int64) { m.orphans.Add(float64(messages)) }

// Folded records that the recent changes have just been added to the counts.
func (m *Metrics) Folded() { m.folded.SetToCurrentTime() }

func (m *Metrics) changedBy(kind dlq.JobKind, messages int64) {
	if messages > 0 { // an unknown kind changes no messages
		m.changed.WithLabelValues(string(kind)).Add(float64(messages))
	}
}
