package kafka_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/zap"

	"dlqmanager/dlq"
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
	ca, stranger := newAuthority(t), newAuthority(t)
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders"), kfake.TLS(&tls.Config{
		Certificates: []tls.Certificate{ca.issue(t, "broker")},
		ClientCAs:    ca.pool(),
		ClientAuth:   tls.RequireAndVerifyClientCert,
	}))
	client := ca.issue(t, "client")
	var trusted atomic.Pointer[authority]
	trusted.Store(stranger)
	o := quickOptions(cluster.ListenAddrs())
	o.DeliveryTimeout = time.Second
	o.TLS = func() (*tls.Config, error) {
		return &tls.Config{RootCAs: trusted.Load().pool(), Certificates: []tls.Certificate{client}}, nil
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

// authority is a certificate authority of one test.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{certificate, key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// issue signs a certificate for 127.0.0.1.
func (a *authority) issue(t testing.TB, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
