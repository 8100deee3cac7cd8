package kafka_test

import (
	"context"
	"crypto/tls"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/zap"

	"dlqmanager/dlq"
	"dlqmanager/internal/certtest"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/kafka"
)

func TestOptionsThatTheLibraryRefusesAreAnError(t *testing.T) {
	t.Parallel()
	const want = "no seed brokers"
	o, registry := quickOptions(nil), prometheus.NewRegistry()
	_, err := kafka.NewPublisher(o, zap.NewNop(), registry)
	require.ErrorContains(t, err, want)
	_, err = kafka.NewIngest(o, newMemory(), topics(t), zap.NewNop(), registry)
	require.ErrorContains(t, err, want)
	_, err = kafka.NewClient(o, zap.NewNop(), registry, "test")
	require.ErrorContains(t, err, want)
}

func TestMutualTLSIsConfiguredForEveryConnection(t *testing.T) {
	t.Parallel()
	ca, stranger := certtest.NewAuthority(t), certtest.NewAuthority(t)
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders"), kfake.TLS(&tls.Config{
		Certificates: []tls.Certificate{ca.Issue(t, "broker")},
		ClientCAs:    ca.Pool(),
		ClientAuth:   tls.RequireAndVerifyClientCert,
	}))
	client := ca.Issue(t, "client")
	var trusted atomic.Pointer[certtest.Authority]
	trusted.Store(stranger)
	o := quickOptions(cluster.ListenAddrs())
	o.DeliveryTimeout = time.Second
	o.TLS = func() (*tls.Config, error) {
		return &tls.Config{RootCAs: trusted.Load().Pool(), Certificates: []tls.Certificate{client}}, nil
	}
	publish := func(p *kafka.Publisher) error {
		return p.Publish(context.Background(), []dlq.Envelope{envelope("orders", "k", "v")}, dlq.OrderKey, nil)[0].Err
	}

	p := newPublisher(t, o)
	err := publish(p)
	require.Equal(t, dlq.CategoryAuth, deliveryError(t, err).Category, err.Error())
	require.ErrorContains(t, err, "certificate signed by unknown authority")

	trusted.Store(ca)
	require.Eventually(t, func() bool { return publish(p) == nil }, timeout, tick)
	require.NoError(t, p.Ping(deadline(t)))
}

func TestMetricsOfAllClientsShareOneRegistry(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders", "orders.dlq"))
	registry := prometheus.NewRegistry()
	o := quickOptions(cluster.ListenAddrs())
	p, err := kafka.NewPublisher(o, zap.NewNop(), registry)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	ingest, err := kafka.NewIngest(o, newMemory(), topics(t), zap.NewNop(), registry)
	require.NoError(t, err)
	for range 2 { // Run may be called again after it has ended
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- ingest.Run(ctx) }()
		require.Eventually(t, func() bool { return ingest.Status().Partitions == 1 }, timeout, tick)
		require.Error(t, ingest.Run(ctx), "but not twice at once")
		cancel()
		require.NoError(t, <-done)
	}
	errs := errorsOf(p.Publish(context.Background(), []dlq.Envelope{
		envelope("orders", "k", "v"), envelope("missing", "k", "v"), badEnvelope(t, "missing", "k", tooLargeForABatch),
	}, dlq.OrderKey, nil))
	require.NoError(t, errs[0])
	require.Error(t, errs[1])
	require.Error(t, errs[2])

	families, err := registry.Gather()
	require.NoError(t, err)
	counted := map[string]float64{}
	for _, family := range families {
		require.Regexp(t, "^dlq_", family.GetName())
		for _, m := range family.GetMetric() {
			if family.GetName() == "dlq_republished_total" {
				labels := map[string]string{}
				for _, label := range m.GetLabel() {
					labels[label.GetName()] = label.GetValue()
				}
				counted[labels["topic"]+" "+labels["result"]] = m.GetCounter().GetValue()
			}
			if family.GetName() == "dlq_republish_duration_seconds" {
				require.EqualValues(t, 1, m.GetHistogram().GetSampleCount())
			}
		}
	}
	require.Equal(t, map[string]float64{"orders delivered": 1, "missing transient": 1, "missing held_back": 1}, counted)
}
