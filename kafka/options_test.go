package kafka_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
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

func TestOptionsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	good := kafka.Options{Brokers: []string{"127.0.0.1:9092"}}
	require.NoError(t, good.Validate())
	for want, spoil := range map[string]func(*kafka.Options){
		"kafka.brokers: give at least one host:port": func(o *kafka.Options) { o.Brokers = nil },
		`kafka.brokers: "nohost" is not host:port`:   func(o *kafka.Options) { o.Brokers = []string{"nohost"} },
		`kafka.security_protocol: "TLS" is none of`:  func(o *kafka.Options) { o.SecurityProtocol = "TLS" },
		`kafka.republish_key: "random" is neither`:   func(o *kafka.Options) { o.RepublishKey = "random" },
		"kafka.max_retries: -1 is negative":          func(o *kafka.Options) { o.MaxRetries = -1 },
		"kafka.delivery_timeout: 1ms":                func(o *kafka.Options) { o.DeliveryTimeout = time.Millisecond },
		"kafka.metadata_max_age: 1ms":                func(o *kafka.Options) { o.MetadataMaxAge = time.Millisecond },
		"kafka.stop_grace: -1s":                      func(o *kafka.Options) { o.StopGrace = -time.Second },
		`kafka.sasl.mechanism: "GSSAPI" is none of`: func(o *kafka.Options) {
			o.SecurityProtocol, o.SASL.Mechanism = kafka.SASLSSL, "GSSAPI"
		},
		"kafka.sasl.user: SASL_SSL needs it":                func(o *kafka.Options) { o.SecurityProtocol = kafka.SASLSSL },
		"kafka.sasl.password: SASL_SSL needs it":            func(o *kafka.Options) { o.SecurityProtocol = kafka.SASLSSL },
		"kafka.sasl: security_protocol SSL does not use it": func(o *kafka.Options) { o.SecurityProtocol, o.SASL.User = kafka.SSL, "me" },
		"kafka.tls: security_protocol PLAINTEXT does not":   func(o *kafka.Options) { o.SecurityProtocol, o.TLS.CAFile = kafka.Plaintext, "ca.pem" },
		"kafka.tls: ca_file: open nowhere.pem":              func(o *kafka.Options) { o.SecurityProtocol, o.TLS.CAFile = kafka.SSL, "nowhere.pem" },
		"kafka.tls: give both cert_file and key_file":       func(o *kafka.Options) { o.SecurityProtocol, o.TLS.CertFile = kafka.SSL, "c.pem" },
		"kafka.tls: cert_file and key_file: open nocert.pem": func(o *kafka.Options) {
			o.SecurityProtocol, o.TLS.CertFile, o.TLS.KeyFile = kafka.SSL, "nocert.pem", "k"
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			o := good
			spoil(&o)
			require.ErrorContains(t, o.Validate(), want)
			_, err := kafka.NewPublisher(o, zap.NewNop(), nil)
			require.ErrorContains(t, err, want)
			_, err = kafka.NewIngest(o, newMemory(), topics(t), zap.NewNop(), nil)
			require.ErrorContains(t, err, want)
			_, err = kafka.NewClient(o, zap.NewNop(), nil, "test")
			require.ErrorContains(t, err, want)
		})
	}
}

func TestMutualTLSReadsItsFilesForEveryConnection(t *testing.T) {
	t.Parallel()
	ca, stranger := newAuthority(t), newAuthority(t)
	dir := t.TempDir()
	pool := x509.NewCertPool()
	pool.AddCert(ca.certificate)
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders"), kfake.TLS(&tls.Config{
		Certificates: []tls.Certificate{ca.issue(t, dir, "broker")},
		ClientCAs:    pool,
		ClientAuth:   tls.RequireAndVerifyClientCert,
	}))
	ca.issue(t, dir, "client")
	o := quickOptions(cluster.ListenAddrs())
	o.DeliveryTimeout = time.Second
	o.SecurityProtocol = kafka.SSL
	o.TLS = kafka.TLS{CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "client.pem"), KeyFile: filepath.Join(dir, "client.key")}
	publish := func(p *kafka.Publisher) error {
		return p.Publish(context.Background(), []dlq.Envelope{envelope("orders", "k", "v")}, dlq.OrderKey)[0]
	}

	stranger.write(t, o.TLS.CAFile)
	p := newPublisher(t, o)
	err := publish(p)
	require.Equal(t, dlq.CategoryAuth, deliveryError(t, err).Category, err.Error())
	require.ErrorContains(t, err, "certificate signed by unknown authority")

	ca.write(t, o.TLS.CAFile)
	require.Eventually(t, func() bool { return publish(p) == nil }, patience, tick)
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
	for range 2 { // an ingest can run again
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- ingest.Run(ctx) }()
		require.Eventually(t, func() bool { return ingest.Status().Partitions == 1 }, patience, tick)
		require.Error(t, ingest.Run(ctx), "but not twice at once")
		cancel()
		require.NoError(t, <-done)
	}
	errs := p.Publish(context.Background(), []dlq.Envelope{
		envelope("orders", "k", "v"), envelope("missing", "k", "v"), badEnvelope(t, "missing", "k", tooLargeForABatch),
	}, dlq.OrderKey)
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

func (a *authority) write(t testing.TB, file string) {
	t.Helper()
	writePEM(t, file, "CERTIFICATE", a.certificate.Raw)
}

// issue writes name.pem and name.key for 127.0.0.1.
func (a *authority) issue(t testing.TB, dir, name string) tls.Certificate {
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
	raw, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	writePEM(t, filepath.Join(dir, name+".pem"), "CERTIFICATE", der)
	writePEM(t, filepath.Join(dir, name+".key"), "EC PRIVATE KEY", raw)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key"))
	require.NoError(t, err)
	return pair
}

func writePEM(t testing.TB, file, kind string, der []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}
