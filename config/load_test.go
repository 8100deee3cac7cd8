package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/config"
	"dlqmanager/dlq"
)

// write writes text to a new file and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func load(t *testing.T, text string, environ ...string) (*config.Config, error) {
	t.Helper()
	return config.Load(write(t, text), environ)
}

// problemsOf loads an invalid configuration and returns its problems. In the problems, the path of the file is shortened to
// "file".
func problemsOf(t *testing.T, text string, environ ...string) []string {
	t.Helper()
	path := write(t, text)
	_, err := config.Load(path, environ)
	var problems config.Problems
	require.ErrorAs(t, err, &problems)
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = strings.ReplaceAll(p.String(), path, "file")
	}
	return lines
}

func TestDocumentedServerConfigurationParsesUnchanged(t *testing.T) {
	t.Parallel()
	c, err := config.Load("testdata/server.yaml", []string{"TEMPORAL_ADDRESS=temporal:7233", "DLQ_AUTH_MODE=none"})
	require.NoError(t, err)

	require.Equal(t, config.App{Name: "dlq-manager", Version: "0.1.0", Environment: "production"}, c.App)
	require.Equal(t, "0.0.0.0:8080", c.Server.Address())
	require.Equal(t, "postgres.k1s0-system.svc.cluster.local", c.Database.Host)
	require.Equal(t, 5432, c.Database.Port)
	require.Equal(t, "k1s0_dlq", c.Database.Name)
	require.Equal(t, "app", c.Database.User)
	require.True(t, c.Database.StaticPassword.IsZero())
	require.Equal(t, "disable", c.Database.SSLMode)
	require.Equal(t, 25, c.Database.MaxOpenConns)
	require.Equal(t, 5, c.Database.MaxIdleConns)
	require.Equal(t, 5*time.Minute, c.Database.ConnMaxLifetime.Std())
	require.Equal(t, []string{"kafka-0.messaging.svc.cluster.local:9092"}, c.Kafka.Brokers)
	require.Equal(t, "dlq-manager.default", c.Kafka.ConsumerGroup)
	require.Equal(t, "PLAINTEXT", c.Kafka.SecurityProtocol)
	require.Equal(t, []string{"*.dlq.v1"}, c.Kafka.DLQTopicPattern, "a single glob replaces the default list")
	require.Equal(t, "temporal:7233", c.Temporal.Address)
}

func TestDocumentedDatabaseConfigurationParsesUnchanged(t *testing.T) {
	t.Parallel()
	c, err := config.Load("testdata/database.yaml", nil)
	require.NoError(t, err)

	require.Equal(t, config.App{Name: "dlq-manager", Version: "1.0.0", Tier: "system", Environment: "dev"}, c.App)
	require.True(t, c.Database.Configured())
	require.Equal(t, "dlq_db", c.Database.Name)
	require.Equal(t, 10, c.Database.MaxOpenConns)
	require.Equal(t, 3, c.Database.MaxIdleConns)
	require.False(t, c.Kafka.Configured())
	require.False(t, c.Temporal.Configured())
}

func TestDefaultsAreValidAndNeedNothing(t *testing.T) {
	t.Parallel()
	require.NoError(t, config.Default().CheckFiles())

	c, err := config.Load("", nil)
	require.NoError(t, err)
	require.False(t, c.Database.Configured(), "messages are kept in memory")
	require.False(t, c.Kafka.Configured(), "nothing is published")
	require.Equal(t, "127.0.0.1:8080", c.Server.Address())
	require.Equal(t, "127.0.0.1:9090", c.Worker.MetricsAddress())
	require.Equal(t, 10*time.Second, c.Server.RetryWait.Std())
	require.Equal(t, "dlq-manager", c.Temporal.TaskQueue)
	require.Equal(t, 30*24*time.Hour, c.Archive.Retention.Std())
	require.Equal(t, 365*24*time.Hour, c.Archive.PurgeAfter.Std())
	require.Equal(t, 1000, c.Archive.BatchSize)
	require.Equal(t, "@daily", c.Archive.Schedule)
	require.Equal(t, 4, c.Jobs.Lanes)
}

func TestKafkaDefaults(t *testing.T) {
	t.Parallel()
	c, err := load(t, "kafka: {brokers: ['localhost:9092']}")
	require.NoError(t, err)
	require.True(t, c.Kafka.Configured())
	require.Equal(t, "dlq-manager.default", c.Kafka.ConsumerGroup)
	require.Equal(t, "PLAINTEXT", c.Kafka.SecurityProtocol)
	require.False(t, c.Kafka.UsesTLS())
	require.Equal(t, "original", c.Kafka.RepublishKey)
	require.Equal(t, dlq.DefaultMaxRetries, c.Kafka.MaxRetries)
	require.Equal(t, dlq.DefaultTopicPatterns, c.Kafka.DLQTopicPattern)
	require.Equal(t, "{dlq}.archive", c.Kafka.ArchiveTopic)
	require.True(t, c.Kafka.PublishesExhausted())
	for _, off := range []string{"{brokers: ['localhost:9092'], archive_topic: ''}", "{brokers: ['localhost:9092'], archive_topic: off}", "{archive_topic: '{dlq}.old'}"} {
		c, err := load(t, "kafka: "+off)
		require.NoError(t, err)
		require.False(t, c.Kafka.PublishesExhausted())
	}
}

func TestKafkaSectionIsRead(t *testing.T) {
	t.Parallel()
	c, err := load(t, `
kafka:
  brokers: [a:9093, "[::1]:9093"]
  client_id: one
  security_protocol: SASL_SSL
  dlq_topic_pattern: ["*.dead", "dlq-*"]
  origin_topics: {orders.dead: orders, dlq-pay: pay.v2}
  origins: {"*": ["orders.*", payments], shop.dlq: stock}
  republish_key: uuid
  max_retries: 5
  sasl: {mechanism: SCRAM-SHA-512, user: u, password: 0123}
  tls: {ca_file: ca.pem, cert_file: c.pem, key_file: k.pem, server_name: kafka}
`)
	require.NoError(t, err)
	require.Equal(t, []string{"a:9093", "[::1]:9093"}, c.Kafka.Brokers)
	require.Equal(t, []string{"*.dead", "dlq-*"}, c.Kafka.DLQTopicPattern)
	require.Equal(t, map[string]string{"orders.dead": "orders", "dlq-pay": "pay.v2"}, c.Kafka.OriginTopics)
	require.Equal(t, map[string][]string{"*": {"orders.*", "payments"}, "shop.dlq": {"stock"}}, c.Kafka.Origins)
	require.True(t, c.Kafka.UsesTLS())
	password, err := c.Kafka.SASL.Password()
	require.NoError(t, err)
	require.Equal(t, "0123", password, "the text as written, not the number")
	files := c.Kafka.TLS
	require.Equal(t, []string{"ca.pem", "c.pem", "k.pem", "kafka"}, []string{files.CAFile, files.CertFile, files.KeyFile, files.ServerName})
}

func TestFileThatIsNamedMustExist(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "none.yaml")
	_, err := config.Load(missing, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, missing)

	_, err = config.Load("", []string{"DLQ_CONFIG=" + missing})
	require.ErrorIs(t, err, os.ErrNotExist)

	_, err = config.Load(t.TempDir(), nil)
	require.ErrorContains(t, err, "is a directory")
}

func TestTheCallersFileOverridesTheVariable(t *testing.T) {
	t.Parallel()
	c, err := load(t, "jobs: {lanes: 7}", "DLQ_CONFIG="+write(t, "jobs: {lanes: 9}"))
	require.NoError(t, err)
	require.Equal(t, 7, c.Jobs.Lanes)

	c, err = config.Load("", []string{"DLQ_CONFIG=" + write(t, "jobs: {lanes: 9}")})
	require.NoError(t, err)
	require.Equal(t, 9, c.Jobs.Lanes)
}

func TestHugeFileIsRefused(t *testing.T) {
	t.Parallel()
	_, err := load(t, strings.Repeat("# comment\n", 200_000))
	require.ErrorContains(t, err, "bytes, more than")
}
