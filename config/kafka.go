package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"dlqmanager/dlq"
)

// Kafka is the cluster with the dead-letter topics and the original topics. Without brokers nothing is ingested, and retries
// publish nothing.
type Kafka struct {
	Brokers          []string `yaml:"brokers" check:"host:port"`
	ClientID         string   `yaml:"client_id" default:"dlq-manager" check:"required"`
	ConsumerGroup    string   `yaml:"consumer_group" default:"dlq-manager.default" check:"required"`
	SecurityProtocol string   `yaml:"security_protocol" default:"PLAINTEXT" check:"one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"`
	// DLQTopicPattern is a glob or a list of globs.
	DLQTopicPattern []string `yaml:"dlq_topic_pattern"`
	// OriginTopics maps a dead-letter topic to its original topic, if the original topic does not follow from the name. Both
	// names may have placeholders; see dlq.NewTopics.
	OriginTopics map[string]string `yaml:"origin_topics"`
	// Origins maps globs of dead-letter topics to globs of original topics. A dead letter that names another original topic is
	// suspicious.
	Origins map[string][]string `yaml:"origins"`
	// ArchiveTopic is the topic that gets the exhausted messages of a dead-letter topic. "{dlq}" in its name stands for the
	// dead-letter topic without its version. If ArchiveTopic is empty or "off", exhausted messages are not published.
	ArchiveTopic string `yaml:"archive_topic"`
	RepublishKey string `yaml:"republish_key" default:"original" check:"one of original, uuid"`
	// MaxRetries limits the retries of a new message.
	MaxRetries int  `yaml:"max_retries" check:"1 to 1000"`
	SASL       SASL `yaml:"sasl"`
	TLS        TLS  `yaml:"tls"`
}

// SASL configures the authentication at Kafka.
type SASL struct {
	// Mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
	Mechanism      string `yaml:"mechanism"`
	User           string `yaml:"user"`
	StaticPassword Secret `yaml:"password"`
	// PasswordFile is read again for every new connection.
	PasswordFile string `yaml:"password_file" file:"secret"`
}

// Password returns the current password. It may read the password from a file, so call it for every new connection.
func (s SASL) Password() (string, error) {
	return secretFrom(s.StaticPassword, "kafka.sasl.password_file", s.PasswordFile)
}

// Configured reports whether a Kafka cluster is configured.
func (k Kafka) Configured() bool { return len(k.Brokers) > 0 }

// UsesTLS reports whether connections are encrypted.
func (k Kafka) UsesTLS() bool { return strings.HasSuffix(k.SecurityProtocol, "SSL") }

func (k Kafka) validate(s section) {
	k.validateTopics(s) // the store in memory uses the topics even without a cluster
	if !k.Configured() {
		s.refuse(s.given("brokers") || s.given("security_protocol") || s.given("sasl") || s.given("tls"),
			"brokers", "needs at least one host:port; remove the section and its variables to run without Kafka")
		return
	}
	k.validateArchiveTopic(s)
	s.refuse(k.TLS.isSet() && !k.UsesTLS(), "tls", "has no effect with security_protocol %q: use SSL or SASL_SSL", k.SecurityProtocol)
	if !strings.HasPrefix(k.SecurityProtocol, "SASL_") {
		s.refuse(k.SASL != SASL{}, "sasl", "has no effect with security_protocol %q: use SASL_SSL or SASL_PLAINTEXT", k.SecurityProtocol)
		return
	}
	s.check("sasl.mechanism", "one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512", reflect.ValueOf(k.SASL.Mechanism))
	s.check("sasl.user", "required", reflect.ValueOf(k.SASL.User))
	s.refuse(k.SASL.StaticPassword.IsZero() && k.SASL.PasswordFile == "",
		"sasl.password", "is required with security_protocol %q; kafka.sasl.password_file serves as well", k.SecurityProtocol)
}

func (k Kafka) validateTopics(s section) {
	s.refuse(len(k.DLQTopicPattern) == 0, "dlq_topic_pattern", "needs at least one pattern, such as %s", dlq.DefaultTopicPatterns[0])
	var valid []string
	for i, glob := range k.DLQTopicPattern {
		if _, err := dlq.NewTopics([]string{glob}, nil); err != nil {
			s.add(fmt.Sprintf("dlq_topic_pattern[%d]", i), "%s", err)
			continue
		}
		valid = append(valid, glob)
	}
	for _, glob := range slices.Sorted(maps.Keys(k.Origins)) {
		s.refuseError("origins."+glob, new(dlq.Topics).LimitOrigins(map[string][]string{glob: k.Origins[glob]}))
	}
	if len(valid) == 0 {
		return // OriginTopics can only be checked with valid patterns
	}
	for from, to := range k.OriginTopics {
		_, err := dlq.NewTopics(valid, map[string]string{from: to})
		s.refuseError("origin_topics", err)
	}
}

// PublishesExhausted reports whether exhausted messages are published.
func (k Kafka) PublishesExhausted() bool {
	// An empty environment variable counts as not set, so "off" stands for no topic.
	return k.Configured() && k.ArchiveTopic != "" && k.ArchiveTopic != "off"
}

// validateArchiveTopic accepts the default with any patterns. Some patterns also match the default archive topics, and must not
// stop a program. The worker logs a warning for such patterns.
func (k Kafka) validateArchiveTopic(s section) {
	topics, err := dlq.NewTopics(k.DLQTopicPattern, nil)
	if err != nil || !k.PublishesExhausted() || k.ArchiveTopic == dlq.DefaultArchiveTopic {
		return // validateTopics reports an error of the patterns
	}
	s.refuseError("archive_topic", dlq.NewArchiveTopics(k.ArchiveTopic, topics).Check(k.DLQTopicPattern))
}
