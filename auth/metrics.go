package auth

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dlqmanager/dlq"
)

// Metrics counts failed authentications.
type Metrics struct {
	failures *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{failures: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dlq_auth_failures_total", Help: "Requests without a valid token, by reason.",
	}, []string{"reason"})}
	registerer.MustRegister(m.failures)
	for _, reason := range Reasons {
		m.failures.WithLabelValues(string(reason)) // starts at 0, so that rates see the first failure
	}
	return m
}

func (m *Metrics) failed(reason Reason) { m.failures.WithLabelValues(string(reason)).Inc() }

// Expiry is a metric of the tokens of the file, without their names, since a file may have many.
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

// Count returns an authenticator that counts the failures of another authenticator.
func (m *Metrics) Count(authenticator Authenticator) Authenticator { return counted{authenticator, m} }

type counted struct {
	Authenticator

	metrics *Metrics
}

func (c counted) Authenticate(ctx context.Context, token string) (dlq.Principal, error) {
	principal, err := c.Authenticator.Authenticate(ctx, token)
	refused, ok := errors.AsType[*RefusedError](err)
	switch {
	case ok:
		c.metrics.failed(refused.Reason)
	case err != nil:
		c.metrics.failed(ReasonUnavailable)
	}
	return principal, err
}
