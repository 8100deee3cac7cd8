package telemetry

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// poolCollector reads a pool's statistics for each scrape.
type poolCollector struct{ stat func() *pgxpool.Stat }

// poolMetric is a figure of pgxpool.Stat.
type poolMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*pgxpool.Stat) float64
}

func newPoolMetric(name, help string, kind prometheus.ValueType, value func(*pgxpool.Stat) float64) poolMetric {
	return poolMetric{prometheus.NewDesc("dlq_db_pool_"+name, help, nil, nil), kind, value}
}

var poolMetrics = []poolMetric{
	newPoolMetric("connections_max", "Connections that the pool may open.", prometheus.GaugeValue,
		func(s *pgxpool.Stat) float64 { return float64(s.MaxConns()) }),
	newPoolMetric("connections_acquired", "Connections in use.", prometheus.GaugeValue,
		func(s *pgxpool.Stat) float64 { return float64(s.AcquiredConns()) }),
	newPoolMetric("connections_idle", "Connections that wait for use.", prometheus.GaugeValue,
		func(s *pgxpool.Stat) float64 { return float64(s.IdleConns()) }),
	newPoolMetric("connections_constructing", "Connections being opened.", prometheus.GaugeValue,
		func(s *pgxpool.Stat) float64 { return float64(s.ConstructingConns()) }),
	newPoolMetric("connections_opened_total", "Connections ever opened.", prometheus.CounterValue,
		func(s *pgxpool.Stat) float64 { return float64(s.NewConnsCount()) }),
	newPoolMetric("connections_closed_lifetime_total", "Connections closed because of their age.", prometheus.CounterValue,
		func(s *pgxpool.Stat) float64 { return float64(s.MaxLifetimeDestroyCount()) }),
	newPoolMetric("connections_closed_idle_total", "Connections closed because they were idle.", prometheus.CounterValue,
		func(s *pgxpool.Stat) float64 { return float64(s.MaxIdleDestroyCount()) }),
	newPoolMetric("acquires_total", "Connections handed out.", prometheus.CounterValue,
		func(s *pgxpool.Stat) float64 { return float64(s.AcquireCount()) }),
	newPoolMetric("acquires_waited_total", "Connections handed out after a wait, because the pool was empty.", prometheus.CounterValue,
		func(s *pgxpool.Stat) float64 { return float64(s.EmptyAcquireCount()) }),
	newPoolMetric("acquires_cancelled_total", "Waits for a connection that were cancelled.", prometheus.CounterValue,
		func(s *pgxpool.Stat) float64 { return float64(s.CanceledAcquireCount()) }),
	newPoolMetric("acquire_seconds_total", "Time spent in getting connections.", prometheus.CounterValue,
		func(s *pgxpool.Stat) float64 { return s.AcquireDuration().Seconds() }),
	newPoolMetric("acquire_wait_seconds_total", "Time spent in waiting for a connection, because the pool was empty.", prometheus.CounterValue,
		func(s *pgxpool.Stat) float64 { return s.EmptyAcquireWaitTime().Seconds() }),
}

// NewPoolCollector returns the metrics dlq_db_pool_… of a connection pool; pass
// the pool's Stat method.
func NewPoolCollector(stat func() *pgxpool.Stat) prometheus.Collector { return poolCollector{stat} }

// Describe implements prometheus.Collector.
func (c poolCollector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range poolMetrics {
		out <- m.desc
	}
}

// Collect implements prometheus.Collector. All figures come from the same snapshot.
func (c poolCollector) Collect(out chan<- prometheus.Metric) {
	stat := c.stat()
	if stat == nil {
		return
	}
	for _, m := range poolMetrics {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(stat))
	}
}
