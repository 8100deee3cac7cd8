package telemetry

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// RegisterPool registers the metrics dlq_db_pool_… of a connection pool. stat is the method Stat of the pool.
func RegisterPool(registerer prometheus.Registerer, stat func() *pgxpool.Stat) {
	gauge := func(name, help string, value func(*pgxpool.Stat) float64) {
		registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "dlq_db_pool_" + name, Help: help},
			func() float64 { return value(stat()) }))
	}
	counter := func(name, help string, value func(*pgxpool.Stat) float64) {
		registerer.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "dlq_db_pool_" + name, Help: help},
			func() float64 { return value(stat()) }))
	}
	gauge("connections_max", "Connections that the pool may open.", number((*pgxpool.Stat).MaxConns))
	gauge("connections_acquired", "Connections in use.", number((*pgxpool.Stat).AcquiredConns))
	gauge("connections_idle", "Connections that wait for use.", number((*pgxpool.Stat).IdleConns))
	gauge("connections_constructing", "Connections being opened.", number((*pgxpool.Stat).ConstructingConns))
	counter("connections_opened_total", "Connections ever opened.", number((*pgxpool.Stat).NewConnsCount))
	counter("connections_closed_lifetime_total", "Connections closed because of their age.", number((*pgxpool.Stat).MaxLifetimeDestroyCount))
	counter("connections_closed_idle_total", "Connections closed because they were idle.", number((*pgxpool.Stat).MaxIdleDestroyCount))
	counter("acquires_total", "Connections handed out.", number((*pgxpool.Stat).AcquireCount))
	counter("acquires_waited_total", "Connections handed out after a wait, because the pool was empty.", number((*pgxpool.Stat).EmptyAcquireCount))
	counter("acquires_cancelled_total", "Waits for a connection that were cancelled.", number((*pgxpool.Stat).CanceledAcquireCount))
	counter("acquire_seconds_total", "Time spent in getting connections.",
		func(s *pgxpool.Stat) float64 { return s.AcquireDuration().Seconds() })
	counter("acquire_wait_seconds_total", "Time spent in waiting for a connection, because the pool was empty.",
		func(s *pgxpool.Stat) float64 { return s.EmptyAcquireWaitTime().Seconds() })
}

func number[N int32 | int64](of func(*pgxpool.Stat) N) func(*pgxpool.Stat) float64 {
	return func(s *pgxpool.Stat) float64 { return float64(of(s)) }
}
