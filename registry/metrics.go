package registry

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	requests     *prometheus.CounterVec
	hits, misses prometheus.Counter
	failures     *prometheus.CounterVec
}

// The results of requests.
const (
	resultOK      = "ok"
	resultRefused = "refused" // such as an unknown id
	resultFailed  = "failed"  // the failure opens the breaker
)

func newMetrics(reg prometheus.Registerer, isOpen func() bool) *metrics {
	lookups := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dlq_schema_cache_lookups_total", Help: "Schemas that values were to be decoded with, by whether the cache had them.",
	}, []string{"result"})
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_schema_registry_requests_total", Help: "Schemas that were asked of the registry, by result.",
		}, []string{"result"}),
		hits: lookups.WithLabelValues("hit"), misses: lookups.WithLabelValues("miss"),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_decode_failures_total", Help: "Values and keys in the wire format that were not decoded, by reason.",
		}, []string{"reason"}),
	}
	for _, result := range []string{resultOK, resultRefused, resultFailed} {
		m.requests.WithLabelValues(result)
	}
	for _, reason := range reasons {
		m.failures.WithLabelValues(reason)
	}
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dlq_schema_registry_paused", Help: "1 while nothing is asked of the registry, since it has failed.",
	}, func() float64 {
		if isOpen() {
			return 1
		}
		return 0
	})
	reg.MustRegister(m.requests, lookups, m.failures, open)
	return m
}

func (m *metrics) failed(err error) { m.failures.WithLabelValues(reasonOf(err)).Inc() }
