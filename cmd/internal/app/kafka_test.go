package app

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"dlqmanager/config"
	"dlqmanager/dlq"
	"dlqmanager/internal/certtest"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/kafka"
)

// secureKafka is a cluster with TLS.
type secureKafka struct {
	*kfake.Cluster
	authority *certtest.Authority // issues the certificates of the cluster and of its clients
}

func startSecureKafka(t *testing.T, clientCertificates bool, options ...kfake.Opt) secureKafka {
	t.Helper()
	authority := certtest.NewAuthority(t)
	encryption := &tls.Config{Certificates: []tls.Certificate{authority.Issue(t, "broker")}, MinVersion: tls.VersionTLS12}
	if clientCertificates {
		encryption.ClientCAs, encryption.ClientAuth = authority.Pool(), tls.RequireAndVerifyClientCert
	}
	options = append(options, kfake.TLS(encryption), kfake.SeedTopics(1, "orders"))
	return secureKafka{kafkatest.FakeCluster(t, options...), authority}
}

// refuseLogins refuses every password with the answer of Kafka. Without it, kfake only closes the connection.
func (s secureKafka) refuseLogins() {
	s.ControlKey(kmsg.SASLAuthenticate.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
		s.KeepControl()
		response := request.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		text := "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512"
		response.ErrorCode, response.ErrorMessage = kerr.SaslAuthenticationFailed.Code, &text
		return response, nil, true
	})
}

// section is the configuration of connections that trust the cluster.
func (s secureKafka) section(t *testing.T, protocol string) config.Kafka {
	t.Helper()
	k := config.Default().Kafka
	k.Brokers, k.SecurityProtocol = s.ListenAddrs(), protocol
	k.TLS.CAFile = certtest.File(t, s.authority.PEM())
	return k
}

// optionsOf are the options that the programs make from the section.
func optionsOf(t *testing.T, section config.Kafka) kafka.Options {
	t.Helper()
	cfg := config.Default()
	cfg.Kafka = section
	require.NoError(t, cfg.CheckFiles())
	options, configured := (&parts{cfg: cfg}).kafkaOptions()
	require.True(t, configured)
	return options
}

// connect opens a new connection, as the readiness check of the API does.
func connect(t *testing.T, options kafka.Options, section config.Kafka) error {
	t.Helper()
	client, err := kafka.NewClient(options, zap.NewNop(), prometheus.NewRegistry(), "test")
	require.NoError(t, err)
	defer client.Close()
	p := &parts{cfg: &config.Config{Kafka: section}}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return p.explained("kafka", func(ctx context.Context) error { return kafka.Ping(ctx, client) })(ctx)
}

// publishes requires that a message can be published to the cluster.
func publishes(t *testing.T, options kafka.Options) {
	t.Helper()
	publisher, err := kafka.NewPublisher(options, zap.NewNop(), prometheus.NewRegistry())
	require.NoError(t, err)
	defer publisher.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	message := dlq.Envelope{ID: dlq.NewID(), OriginalTopic: "orders", RetryCount: 1, Record: dlq.Record{Key: []byte("k"), Value: []byte("v")}}
	require.NoError(t, publisher.Publish(ctx, []dlq.Envelope{message}, dlq.OrderKey, nil)[0].Err)
}

func TestKafkaIsReachedWithEveryMechanismOverTLS(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{kafka.Plain, kafka.ScramSHA256, kafka.ScramSHA512} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			cluster := startSecureKafka(t, false, kfake.EnableSASL(), kfake.Superuser(mechanism, "dlq-manager", "right"))
			section := cluster.section(t, "SASL_SSL")
			section.SASL = config.SASL{Mechanism: mechanism, User: "dlq-manager", StaticPassword: config.NewSecret("right")}
			publishes(t, optionsOf(t, section))
		})
	}
}

func TestAPasswordForKafkaMayChangeWhileTheProgramRuns(t *testing.T) {
	t.Parallel()
	for mechanism, number := range map[string]kadm.ScramMechanism{
		kafka.ScramSHA256: kadm.ScramSha256, kafka.ScramSHA512: kadm.ScramSha512,
	} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			cluster := startSecureKafka(t, false, kfake.EnableSASL(), kfake.Superuser(mechanism, "dlq-manager", "before"))
			section := cluster.section(t, "SASL_SSL")
			section.SASL = config.SASL{Mechanism: mechanism, User: "dlq-manager", PasswordFile: certtest.File(t, []byte("before\n"))}
			options := optionsOf(t, section)
			require.NoError(t, connect(t, options, section))

			client, err := kafka.NewClient(options, zap.NewNop(), prometheus.NewRegistry(), "admin")
			require.NoError(t, err)
			defer client.Close()
			changed, err := kadm.NewClient(client).AlterUserSCRAMs(t.Context(), nil,
				[]kadm.UpsertSCRAM{{User: "dlq-manager", Mechanism: number, Iterations: 4096, Password: "after"}})
			require.NoError(t, err)
			require.NoError(t, changed.Error())
			require.Error(t, connect(t, options, section))
			certtest.Replace(t, section.SASL.PasswordFile, []byte("after\n"))
			require.NoError(t, connect(t, options, section))
		})
	}
}

func TestACertificateForKafkaMayChangeWhileTheProgramRuns(t *testing.T) {
	t.Parallel()
	cluster := startSecureKafka(t, true)
	files := certtest.Write(t, cluster.authority.Issue(t, "dlq-manager"))
	section := cluster.section(t, "SSL")
	section.TLS.CertFile, section.TLS.KeyFile = files.Cert, files.Key
	options := optionsOf(t, section)
	publishes(t, options)

	stranger := certtest.NewAuthority(t)
	files.Replace(t, stranger.Issue(t, "dlq-manager"))
	_ = refused(t, "kafka.tls.cert_file: ", "remote error: tls: ", func() error { return connect(t, options, section) })
	files.Replace(t, cluster.authority.Issue(t, "dlq-manager", certtest.Expired()))
	_ = refused(t, "kafka.tls.cert_file: ", "remote error: tls: expired certificate", func() error { return connect(t, options, section) })
	files.Replace(t, cluster.authority.Issue(t, "dlq-manager"))
	require.NoError(t, connect(t, options, section))
	certtest.Replace(t, section.TLS.CAFile, stranger.PEM())
	require.ErrorContains(t, connect(t, options, section), "kafka.tls.ca_file: ")
	certtest.Replace(t, section.TLS.CAFile, cluster.authority.PEM())
	publishes(t, options)
}

func TestAnErrorOfKafkaNamesTheSettingThatIsWrong(t *testing.T) {
	t.Parallel()
	login := []kfake.Opt{kfake.EnableSASL(), kfake.Superuser(kafka.ScramSHA512, "dlq-manager", "right")}
	withPassword, withCertificate := startSecureKafka(t, false, login...), startSecureKafka(t, true)
	refusing := startSecureKafka(t, false, login...)
	refusing.refuseLogins()
	stranger, secret := certtest.NewAuthority(t), rand.Text()
	expired := kafkatest.FakeCluster(t, kfake.TLS(&tls.Config{
		Certificates: []tls.Certificate{stranger.Issue(t, "broker", certtest.Expired())},
	}))
	right := func(t *testing.T) config.Kafka {
		k := withPassword.section(t, "SASL_SSL")
		k.SASL = config.SASL{Mechanism: kafka.ScramSHA512, User: "dlq-manager", StaticPassword: config.NewSecret("right")}
		return k
	}
	require.NoError(t, connect(t, optionsOf(t, right(t)), right(t)))
	for name, c := range map[string]struct {
		change        func(*config.Kafka)
		setting, said string
	}{
		"authority": {func(k *config.Kafka) { k.TLS.CAFile = certtest.File(t, stranger.PEM()) },
			"kafka.tls.ca_file: ", "x509: certificate signed by unknown authority"},
		"host name": {func(k *config.Kafka) { k.TLS.ServerName = "kafka.example" },
			"kafka.tls.server_name: ", "x509: certificate is not valid for any names, but wanted to match kafka.example"},
		"expired certificate of the broker": {func(k *config.Kafka) {
			k.Brokers, k.TLS.CAFile = expired.ListenAddrs(), certtest.File(t, stranger.PEM())
		}, "kafka.brokers: ", "x509: certificate has expired or is not yet valid"},
		"password": {func(k *config.Kafka) {
			k.Brokers, k.TLS.CAFile = refusing.ListenAddrs(), certtest.File(t, refusing.authority.PEM())
			k.SASL.StaticPassword = config.NewSecret(secret)
		}, "kafka.sasl.password: ", "invalid credentials with SASL mechanism SCRAM-SHA-512"},
		"password file": {func(k *config.Kafka) {
			k.Brokers, k.TLS.CAFile = refusing.ListenAddrs(), certtest.File(t, refusing.authority.PEM())
			k.SASL.StaticPassword, k.SASL.PasswordFile = config.Secret{}, certtest.File(t, []byte(secret))
		}, "kafka.sasl.password_file: ", "SASL_AUTHENTICATION_FAILED"},
		"no client certificate": {func(k *config.Kafka) { *k = withCertificate.section(t, "SSL") },
			"kafka.tls.cert_file: ", "tls: certificate required"},
		"client certificate of a stranger": {func(k *config.Kafka) {
			files := certtest.Write(t, stranger.Issue(t, "dlq-manager"))
			*k = withCertificate.section(t, "SSL")
			k.TLS.CertFile, k.TLS.KeyFile = files.Cert, files.Key
		}, "kafka.tls.cert_file: ", "tls: unknown certificate authority"},
		"expired client certificate": {func(k *config.Kafka) {
			files := certtest.Write(t, withCertificate.authority.Issue(t, "dlq-manager", certtest.Expired()))
			*k = withCertificate.section(t, "SSL")
			k.TLS.CertFile, k.TLS.KeyFile = files.Cert, files.Key
		}, "kafka.tls.cert_file: ", "remote error: tls: expired certificate"},
		"no TLS where there is some": {func(k *config.Kafka) {
			k.SecurityProtocol, k.TLS = "SASL_PLAINTEXT", config.TLS{}
		}, "kafka.security_protocol: ", "is TLS missing?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			section := right(t)
			c.change(&section)
			options := optionsOf(t, section)
			err := refused(t, c.setting, c.said, func() error { return connect(t, options, section) })
			require.NotContains(t, err.Error(), secret)
		})
	}
}
