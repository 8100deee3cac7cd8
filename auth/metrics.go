package auth

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// newFailures registers the metric of failed authentications.
func newFailures(registerer prometheus.Registerer) *prometheus.CounterVec {
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dlq_auth_failures_total", Help: "Requests without a valid token, by reason.",
	}, []string{"reason"})
	registerer.MustRegister(failures)
	for _, reason := range Reasons {
		failures.WithLabelValues(string(reason)) // starts at 0, so that rates include the first failure
	}
	return failures
}

// Expiry exports when the next token of the file expires. It has no label with the names of tokens, since a file may have many
// tokens.
func (t *Tokens) Expiry() prometheus.Collector { return tokensExpiry{t} }

type tokensExpiry struct{ tokens *Tokens }

var tokenExpiry = prometheus.NewDesc("dlq_token_expiry_timestamp_seconds",
	"When the next of the static tokens expires, in Unix time. Tokens that have expired, or never do, are not considered.", nil, nil)

// Describe implements prometheus.Collector.
func (e tokensExpiry) Describe(descs chan<- *prometheus.Desc) { descs <- tokenExpiry }

// Collect implements prometheus.Collector.
func (e tokensExpiry) Collect(metrics chan<- prometheus.Metric) {
	var next time.Time
	for _, token := range e.tokens.current() {
		if token.expires.After(e.tokens.now()) && (next.IsZero() || token.expires.Before(next)) {
			next = token.expires
		}
	}
	if !next.IsZero() {
		metrics <- prometheus.MustNewConstMetric(tokenExpiry, prometheus.GaugeValue, float64(next.Unix()))
	}
}
