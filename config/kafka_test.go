package config_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/config"
)

func TestKafkaSectionIsChecked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{brokers: []}":                              "file:1: kafka.brokers: needs at least one host:port",
		"{brokers: [a]}":                             `file:1: kafka.brokers[0]: must be host:port, not "a"`,
		"{brokers: ['a:0']}":                         `file:1: kafka.brokers[0]: must be host:port, not "a:0"`,
		"{brokers: ['kafka://a:1']}":                 "file:1: kafka.brokers[0]: must be host:port",
		"{brokers: [':1']}":                          `file:1: kafka.brokers[0]: must be host:port, not ":1"`,
		"{brokers: ['a:']}":                          `file:1: kafka.brokers[0]: must be host:port, not "a:"`,
		"{brokers: ['a:1'], security_protocol: TLS}": `file:1: kafka.security_protocol: must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not "TLS"`,
		"{brokers: ['a:1'], consumer_group: ''}":     "file:1: kafka.consumer_group: is required",
		"{brokers: ['a:1'], tls: {ca_file: f}}":      `file:1: kafka.tls: has no effect with security_protocol "PLAINTEXT"`,
		"{brokers: ['a:1'], sasl: {user: u}}":        `file:1: kafka.sasl: has no effect with security_protocol "PLAINTEXT"`,
		"{brokers: ['a:1'], security_protocol: SSL, tls: {cert_file: f}}":                                                          "file:1: kafka.tls: cert_file and key_file belong together",
		"{brokers: ['a:1'], security_protocol: SSL, tls: {key_file: f}}":                                                           "file:1: kafka.tls: cert_file and key_file belong together",
		"{brokers: ['a:1'], security_protocol: SSL, sasl: {user: u}}":                                                              `file:1: kafka.sasl: has no effect with security_protocol "SSL"`,
		"{brokers: ['a:1'], security_protocol: SASL_PLAINTEXT, sasl: {mechanism: PLAIN, user: u, password: p}, tls: {ca_file: f}}": `file:1: kafka.tls: has no effect with security_protocol "SASL_PLAINTEXT"`,
		"{brokers: ['a:1'], security_protocol: SASL_SSL, sasl: {mechanism: GSSAPI, user: u, password: p}}":                         "kafka.sasl.mechanism: must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
		"{brokers: ['a:1'], security_protocol: SASL_SSL, sasl: {mechanism: PLAIN, password: p}}":                                   "kafka.sasl.user: is required",
		"{brokers: ['a:1'], security_protocol: SASL_SSL, sasl: {mechanism: PLAIN, user: u}}":                                       `kafka.sasl.password: is required with security_protocol "SASL_SSL"; kafka.sasl.password_file serves as well`,
		"{brokers: ['a:1'], dlq_topic_pattern: []}":                                                                                "file:1: kafka.dlq_topic_pattern: needs at least one pattern",
		"{brokers: ['a:1'], dlq_topic_pattern: '..'}":                                                                              `file:1: kafka.dlq_topic_pattern[0]: must be a topic name in which *`,
		"{brokers: ['a:1'], dlq_topic_pattern: '*'}":                                                                               `file:1: kafka.dlq_topic_pattern[0]: "*" matches every topic`,
		"{brokers: ['a:1'], dlq_topic_pattern: [a.dlq, '^b.*$']}":                                                                  "file:1: kafka.dlq_topic_pattern[1]: must be a topic name in which *",
		"{brokers: ['a:1'], origin_topics: {a.dlq: 'a b'}}":                                                                        `file:1: kafka.origin_topics: "a b" is not the name of a topic`,
		"{origins: {'a b': [a]}}":                            `file:1: kafka.origins.a b: must be a topic name in which * stands for any run of characters and ? for one, not "a b"`,
		"{origins: {a: [b, 'a b']}}":                         `file:1: kafka.origins.a: an origin of "a" must be a topic name in which * stands for any run of characters and ? for one, not "a b"`,
		"{origins: [a]}":                                     `file:1: kafka.origins: must be a section of keys and values, not a list`,
		"{origins: {a: {b: c}}}":                             `file:1: kafka.origins.a: must be text, not a section`,
		"{origin_topics: {'a b': a}}":                        `file:1: kafka.origin_topics: "a b" is not the name of a topic`,
		"{origin_topics: {a.dlq: ..}}":                       `file:1: kafka.origin_topics: ".." is not the name of a topic`,
		"{origin_topics: {a.dlq: b.dlq}}":                    `file:1: kafka.origin_topics: original topic "b.dlq" of "a.dlq" is itself a dead-letter topic`,
		"{brokers: ['a:1'], origin_topics: {a.dlq: a.dlq}}":  `file:1: kafka.origin_topics: "a.dlq" cannot be its own origin`,
		"{brokers: ['a:1'], archive_topic: '{dlq}.old.dlq'}": `file:1: kafka.archive_topic: "x.dlq.old.dlq", the archive topic of "x.dlq.v1", is itself a dead-letter topic`,
		"{brokers: ['a:1'], archive_topic: '{topic}.old'}":   `file:1: kafka.archive_topic: "{topic}.old", the archive topic of "x.dlq.v1", is not the name of a topic`,
		"{brokers: ['a:1'], republish_key: none}":            `file:1: kafka.republish_key: must be one of original, uuid, not "none"`,
		"{brokers: ['a:1'], max_retries: -1}":                "file:1: kafka.max_retries: must be 1 to 1000, not -1",
		"{brokers: ['a:1'], max_retries: 0}":                 "file:1: kafka.max_retries: must be 1 to 1000, not 0",
	} {
		problems := problemsOf(t, "kafka: "+text)
		require.Len(t, problems, 1, text)
		require.Contains(t, problems[0], want)
	}
}

func TestProblemsOfPatternsAndOriginsAreReportedTogether(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		`file:3: kafka.dlq_topic_pattern[1]: "*" matches every topic, so no message could be sent back`,
		`file:4: kafka.origin_topics: original topic "a.dead" of "b" is itself a dead-letter topic`,
	}, problemsOf(t, "kafka:\n  dlq_topic_pattern:\n    ['*.dead', '*']\n  origin_topics: {b: a.dead}"))
}

func TestKafkaTLSFilesAreCheckedAndReadEveryTime(t *testing.T) {
	t.Parallel()
	certFile, keyFile := certificate(t)
	c := config.Default()
	c.Kafka.TLS = config.TLS{CAFile: keyFile, CertFile: certFile, KeyFile: keyFile, ServerName: "kafka"}
	require.EqualError(t, c.CheckFiles(), "kafka.tls.ca_file: no certificate in "+keyFile)
	c.Kafka.TLS = config.TLS{CAFile: certFile, CertFile: certFile, KeyFile: certFile, ServerName: "kafka"}
	require.ErrorContains(t, c.CheckFiles(), "kafka.tls.cert_file and kafka.tls.key_file: ")

	c.Kafka.TLS.KeyFile = keyFile
	require.NoError(t, c.CheckFiles())
	encryption, err := c.Kafka.TLS.Config()
	require.NoError(t, err)
	require.NotNil(t, encryption.RootCAs)
	require.Len(t, encryption.Certificates, 1)
	require.Equal(t, "kafka", encryption.ServerName)
	require.NoError(t, os.Remove(certFile))
	_, err = c.Kafka.TLS.Config()
	require.ErrorIs(t, err, os.ErrNotExist)

	encryption, err = config.TLS{}.Config()
	require.NoError(t, err)
	require.Nil(t, encryption.RootCAs, "the system's")
	require.Empty(t, encryption.ServerName, "the broker's host")
}

func TestTopicSettingsDoNotRequireACluster(t *testing.T) {
	t.Parallel()
	c, err := load(t, "kafka: {dlq_topic_pattern: '*.dead', max_retries: 5}")
	require.NoError(t, err, "they also hold for messages that are kept in memory")
	require.False(t, c.Kafka.Configured())
}

func TestArchiveSectionIsChecked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{schedule: never}":          "file:1: archive.schedule: must be a cron expression of five fields",
		"{schedule: ''}":             "file:1: archive.schedule: must be a cron expression",
		"{schedule: '@fortnightly'}": "file:1: archive.schedule: must be a cron expression",
		"{schedule: '@every soon'}":  "file:1: archive.schedule: needs a duration of at least 1s after @every",
		"{schedule: '60 3 * * *'}":   `file:1: archive.schedule: has a minute that cannot be: "60"`,
		"{schedule: '0 24 * * *'}":   `file:1: archive.schedule: has a hour that cannot be: "24"`,
		"{schedule: '0 3 0 * *'}":    `file:1: archive.schedule: has a day of the month that cannot be: "0"`,
		"{schedule: '0 3 * 13 *'}":   `file:1: archive.schedule: has a month that cannot be: "13"`,
		"{schedule: '0 3 * * fry'}":  `file:1: archive.schedule: has a day of the week that cannot be: "fry"`,
		"{schedule: '5-1 3 * * *'}":  `file:1: archive.schedule: has a minute that cannot be: "5-1"`,
		"{schedule: '*/0 3 * * *'}":  `file:1: archive.schedule: has a minute that cannot be: "*/0"`,
		"{schedule: '1,, 3 * * *'}":  `file:1: archive.schedule: has a minute that cannot be: "1,,"`,
		"{retention: 0s}":            "file:1: archive.retention: must be at least 1s, not 0s",
		"{retention: 400d}":          "archive.purge_after: must be longer than archive.retention (400d), not 365d",
		"{batch_size: 0}":            "file:1: archive.batch_size: must be 1 to 100000, not 0",
	} {
		problems := problemsOf(t, "archive: "+text)
		require.Len(t, problems, 1, text)
		require.Contains(t, problems[0], want)
	}
}

func TestCommonSchedulesAreAccepted(t *testing.T) {
	t.Parallel()
	for _, schedule := range []string{"@daily", "@hourly", "@every 6h", "15 3 * * *", "*/15 0-6 1,15 jan-mar MON-FRI", "0 0 * * 7", "0/20 * * * *"} {
		c, err := load(t, "", "DLQ_ARCHIVE_SCHEDULE="+schedule)
		require.NoError(t, err, schedule)
		require.Equal(t, schedule, c.Archive.Schedule)
	}
}
