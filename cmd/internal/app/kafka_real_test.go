//go:build frameworks

package app

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"dlqmanager/config"
	"dlqmanager/internal/certtest"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/kafka"
)

// TestARealKafkaOverTLS uses all mechanisms, makes each change that can happen while the program runs, and makes every mistake
// in the configuration.
func TestARealKafkaOverTLS(t *testing.T) {
	authority := certtest.NewAuthority(t)
	server := kafkatest.RealSecureCluster(t, authority)
	client, err := kgo.NewClient(kgo.SeedBrokers(server.Brokers()...))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	admin := kadm.NewClient(client)
	_, err = admin.CreateTopic(t.Context(), 1, 1, nil, "orders")
	require.NoError(t, err)
	setPassword := func(password string) {
		t.Helper()
		for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
			changed, err := admin.AlterUserSCRAMs(t.Context(), nil,
				[]kadm.UpsertSCRAM{{User: kafkatest.User, Mechanism: mechanism, Iterations: 4096, Password: password}})
			require.NoError(t, err)
			require.NoError(t, changed.Error())
		}
	}
	setPassword(kafkatest.Password)
	withPassword := func() config.Kafka {
		k := config.Default().Kafka
		k.Brokers, k.SecurityProtocol, k.TLS.CAFile = []string{server.SASLSSL}, "SASL_SSL", certtest.File(t, authority.PEM())
		k.SASL = config.SASL{Mechanism: kafka.ScramSHA512, User: kafkatest.User, PasswordFile: certtest.File(t, []byte(kafkatest.Password))}
		return k
	}
	withCertificate := func(issuer *certtest.Authority) (config.Kafka, certtest.Files) {
		files, k := certtest.Write(t, issuer.Issue(t, "dlq-manager")), withPassword()
		k.Brokers, k.SecurityProtocol, k.SASL = []string{server.SSL}, "SSL", config.SASL{}
		k.TLS.CertFile, k.TLS.KeyFile = files.Cert, files.Key
		return k, files
	}

	for _, mechanism := range []string{kafka.Plain, kafka.ScramSHA256, kafka.ScramSHA512} {
		section := withPassword()
		section.SASL.Mechanism = mechanism
		publishes(t, optionsOf(t, section))
	}
	mutual, files := withCertificate(authority)
	publishes(t, optionsOf(t, mutual))

	secret, stranger := rand.Text(), certtest.NewAuthority(t)
	for name, c := range map[string]struct {
		change        func(*config.Kafka)
		setting, said string
	}{
		"authority": {func(k *config.Kafka) { k.TLS.CAFile = certtest.File(t, stranger.PEM()) },
			"kafka.tls.ca_file: ", "x509: certificate signed by unknown authority"},
		"host name": {func(k *config.Kafka) { k.TLS.ServerName = "kafka.example" }, "kafka.tls.server_name: ", "kafka.example"},
		"password": {func(k *config.Kafka) { k.SASL.PasswordFile = certtest.File(t, []byte(secret)) },
			"kafka.sasl.password_file: ", "SASL_AUTHENTICATION_FAILED"},
		"password of PLAIN": {func(k *config.Kafka) {
			k.SASL.Mechanism, k.SASL.PasswordFile = kafka.Plain, certtest.File(t, []byte(secret))
		}, "kafka.sasl.password_file: ", "SASL_AUTHENTICATION_FAILED"},
		"mechanism": {func(k *config.Kafka) {
			k.SecurityProtocol, k.TLS, k.Brokers = "SASL_PLAINTEXT", config.TLS{}, server.SASLBrokers()
			k.SASL.Mechanism = kafka.ScramSHA256
		}, "kafka.sasl.mechanism: ", "UNSUPPORTED_SASL_MECHANISM"},
		"no client certificate": {func(k *config.Kafka) {
			*k, _ = withCertificate(authority)
			k.TLS.CertFile, k.TLS.KeyFile = "", ""
		}, "kafka.tls.cert_file: ", "remote error: tls: "},
		"client certificate of a stranger": {func(k *config.Kafka) { *k, _ = withCertificate(stranger) },
			"kafka.tls.cert_file: ", "remote error: tls: "},
		"TLS where there is none": {func(k *config.Kafka) { k.Brokers = server.SASLBrokers() },
			"kafka.security_protocol: ", "broker closed the connection"},
		"no TLS where there is some": {func(k *config.Kafka) { k.SecurityProtocol, k.TLS = "SASL_PLAINTEXT", config.TLS{} },
			"kafka.security_protocol: ", "tls alert record"},
	} {
		t.Run(name, func(t *testing.T) {
			section := withPassword()
			c.change(&section)
			options := optionsOf(t, section)
			err := refused(t, c.setting, c.said, func() error { return connect(t, options, section) })
			require.NotContains(t, err.Error(), secret)
		})
	}

	t.Run("changes on disk while it runs", func(t *testing.T) {
		section := withPassword()
		var running []*kafka.Publisher
		for _, section := range []config.Kafka{section, mutual} {
			publisher, err := kafka.NewPublisher(optionsOf(t, section), zap.NewNop(), prometheus.NewRegistry())
			require.NoError(t, err)
			t.Cleanup(publisher.Close)
			require.NoError(t, publisher.Ping(t.Context()))
			running = append(running, publisher)
		}
		setPassword("renewed")
		certtest.Replace(t, section.SASL.PasswordFile, []byte("renewed"))
		before := mutual.TLS.CertFile
		files.Replace(t, authority.Issue(t, "renewed"))
		require.Equal(t, before, files.Cert)
		server.Stop() // ends all connections
		server.Start(t)
		for _, publisher := range running {
			require.Eventually(t, func() bool { return publisher.Ping(t.Context()) == nil }, 30*time.Second, 50*time.Millisecond)
		}
	})
}
