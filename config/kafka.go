package config

import (
	"crypto/tls"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"dlqmanager/dlq"
)

// Kafka is the cluster that dead letters come from and are sent back to. Without
// brokers nothing is ingested, and retries publish nothing.
type Kafka struct {
	// Brokers are host:port each.
	Brokers       []string `yaml:"brokers"`
	ClientID      string   `yaml:"client_id"`
	ConsumerGroup string   `yaml:"consumer_group"`
	// SecurityProtocol is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
	SecurityProtocol string `yaml:"security_protocol"`
	// DLQTopicPattern is one glob or a list of them.
	DLQTopicPattern []string `yaml:"dlq_topic_pattern"`
	// OriginTopics maps a dead-letter topic to its original topic, if that does not
	// follow from the name. Both may have placeholders; see dlq.NewTopics.
	OriginTopics map[string]string `yaml:"origin_topics"`
	// Origins maps globs of dead-letter topics to globs of the origins that their dead letters may
	// name. Others are suspicious.
	Origins OriginGlobs `yaml:"origins"`
	// ArchiveTopic names the topic that gets the exhausted messages of a dead-letter topic.
	// "{dlq}" in it stands for the dead-letter topic without its version. If it is empty or
	// "off", exhausted messages are not published.
	ArchiveTopic string `yaml:"archive_topic"`
	// RepublishKey is "original" or "uuid".
	RepublishKey string `yaml:"republish_key"`
	// MaxRetries is how many retries a new message may have.
	MaxRetries int      `yaml:"max_retries"`
	SASL       SASL     `yaml:"sasl"`
	TLS        KafkaTLS `yaml:"tls"`
}

// SASL configures the authentication at Kafka.
type SASL struct {
	// Mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
	Mechanism      string `yaml:"mechanism"`
	User           string `yaml:"user"`
	StaticPassword Secret `yaml:"password"`
	// PasswordFile is read for every new connection.
	PasswordFile string `yaml:"password_file"`
}

// Password returns the current password. It reads the file, if any, so call it for
// every new connection.
func (s SASL) Password() (string, error) {
	return secretFrom(s.StaticPassword, "kafka.sasl.password_file", s.PasswordFile)
}

// KafkaTLS names PEM files. The server's certificate is always verified.
type KafkaTLS struct {
	// CAFile holds the trusted certificates; empty means the system's.
	CAFile string `yaml:"ca_file"`
	// CertFile and KeyFile are the client's own, for mTLS.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// ServerName is the expected name in the server's certificate, if it differs from
	// the broker's host name.
	ServerName string `yaml:"server_name"`
}

// Config returns the TLS configuration. It reads the files, so call it for every new
// connection.
func (t KafkaTLS) Config() (*tls.Config, error) { return t.config("kafka.tls") }

// config has the path of the section for its errors.
func (t KafkaTLS) config(path string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	var err error
	if t.CAFile != "" {
		if config.RootCAs, err = readAuthorities(path+".ca_file", t.CAFile); err != nil {
			return nil, err
		}
	}
	if t.CertFile != "" {
		certificate, err := readCertificate(path+".cert_file", t.CertFile, path+".key_file", t.KeyFile)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}

func defaultKafka() Kafka {
	return Kafka{
		ClientID:         "dlq-manager",
		ConsumerGroup:    "dlq-manager.default",
		SecurityProtocol: "PLAINTEXT",
		DLQTopicPattern:  dlq.DefaultTopicPatterns,
		ArchiveTopic:     dlq.DefaultArchiveTopic,
		RepublishKey:     "original",
		MaxRetries:       dlq.DefaultMaxRetries,
	}
}

// Configured reports whether a Kafka cluster is configured.
func (k Kafka) Configured() bool { return len(k.Brokers) > 0 }

// UsesTLS reports whether connections are encrypted.
func (k Kafka) UsesTLS() bool { return strings.HasSuffix(k.SecurityProtocol, "SSL") }

func (k Kafka) validate(r *report) {
	k.validateTopics(r) // also used without a cluster, by the store in memory
	if !k.Configured() {
		if r.given("kafka.brokers") || r.given("kafka.security_protocol") || r.given("kafka.sasl") || r.given("kafka.tls") {
			r.add("kafka.brokers", "needs at least one host:port; remove the section and its variables to run without Kafka")
		}
		return
	}
	k.validateArchiveTopic(r)
	for i, broker := range k.Brokers {
		r.hostPort(fmt.Sprintf("kafka.brokers[%d]", i), broker)
	}
	r.notEmpty("kafka.client_id", k.ClientID)
	r.notEmpty("kafka.consumer_group", k.ConsumerGroup)
	r.oneOf("kafka.security_protocol", k.SecurityProtocol, "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
	k.SASL.validate(r, k.SecurityProtocol)
	if k.TLS != (KafkaTLS{}) && !k.UsesTLS() {
		r.add("kafka.tls", "has no effect with security_protocol %q: use SSL or SASL_SSL", k.SecurityProtocol)
	}
	r.certificate("kafka.tls", k.TLS.CertFile, k.TLS.KeyFile)
}

func (s SASL) validate(r *report, protocol string) {
	if !strings.HasPrefix(protocol, "SASL_") {
		if s != (SASL{}) {
			r.add("kafka.sasl", "has no effect with security_protocol %q: use SASL_SSL or SASL_PLAINTEXT", protocol)
		}
		return
	}
	r.oneOf("kafka.sasl.mechanism", s.Mechanism, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
	r.notEmpty("kafka.sasl.user", s.User)
	if s.StaticPassword.IsZero() && s.PasswordFile == "" {
		r.add("kafka.sasl.password", "is required with security_protocol %q; kafka.sasl.password_file serves as well", protocol)
	}
	exclusive(r, "kafka.sasl.password", !s.StaticPassword.IsZero(), s.PasswordFile)
}

func (k Kafka) validateTopics(r *report) {
	r.oneOf("kafka.republish_key", k.RepublishKey, "original", "uuid")
	r.between("kafka.max_retries", k.MaxRetries, 1, 1000)
	if len(k.DLQTopicPattern) == 0 {
		r.add("kafka.dlq_topic_pattern", "needs at least one pattern, such as %s", dlq.DefaultTopicPatterns[0])
	}
	var valid []string
	for i, glob := range k.DLQTopicPattern {
		path := "kafka.dlq_topic_pattern"
		if len(k.DLQTopicPattern) > 1 {
			path = fmt.Sprintf("%s[%d]", path, i)
		}
		if _, err := dlq.NewTopics([]string{glob}, nil); err != nil {
			r.add(path, "%s", err)
			continue
		}
		valid = append(valid, glob)
	}
	for _, glob := range slices.Sorted(maps.Keys(k.Origins)) {
		if err := new(dlq.Topics).LimitOrigins(map[string][]string{glob: k.Origins[glob]}); err != nil {
			r.add("kafka.origins."+glob, "%s", err)
		}
	}
	if len(valid) == 0 {
		return // an origin can only be checked against valid patterns
	}
	for from, to := range k.OriginTopics {
		if _, err := dlq.NewTopics(valid, map[string]string{from: to}); err != nil {
			r.add("kafka.origin_topics", "%s", err)
		}
	}
}

// PublishesExhausted reports whether exhausted messages are published.
func (k Kafka) PublishesExhausted() bool {
	// An empty variable counts as unset, so the environment needs a word.
	return k.Configured() && k.ArchiveTopic != "" && k.ArchiveTopic != "off"
}

// validateArchiveTopic accepts the default with any pattern. Otherwise an upgrade could stop
// a program whose patterns also match the archive topics; its worker logs a warning.
func (k Kafka) validateArchiveTopic(r *report) {
	topics, err := dlq.NewTopics(k.DLQTopicPattern, nil)
	if err != nil || !k.PublishesExhausted() || k.ArchiveTopic == dlq.DefaultArchiveTopic {
		return // validateTopics reports the error
	}
	if err := dlq.NewArchiveTopics(k.ArchiveTopic, topics).Check(k.DLQTopicPattern); err != nil {
		r.add("kafka.archive_topic", "%s", err)
	}
}

// OriginGlobs are the globs of original topics by globs of dead-letter topics.
type OriginGlobs map[string][]string

// String is the form of the environment.
func (o OriginGlobs) String() string {
	pairs := make([]string, 0, len(o))
	for _, glob := range slices.Sorted(maps.Keys(o)) {
		pairs = append(pairs, glob+"="+strings.Join(o[glob], "|"))
	}
	return strings.Join(pairs, ",")
}

// UnmarshalText reads the form of the environment.
func (o *OriginGlobs) UnmarshalText(text []byte) error {
	var pairs map[string]string
	if err := setText(reflect.ValueOf(&pairs).Elem(), string(text)); err != nil {
		return err
	}
	*o = OriginGlobs{}
	for glob, origins := range pairs {
		(*o)[glob] = strings.Split(origins, "|")
	}
	return nil
}

// origins reads a mapping of globs to a glob or a list of them.
func (d *decoder) origins(path string, node *yaml.Node, target *OriginGlobs) {
	if node.Kind != yaml.MappingNode {
		d.add(node.Line, path, "must be a mapping of dead-letter topics to lists of original topics, not %s", describe(node))
		return
	}
	origins := OriginGlobs{}
	d.pairs(path, node, func(key, value *yaml.Node, keyPath string) {
		var globs []string
		d.value(keyPath, resolveAlias(value), reflect.ValueOf(&globs).Elem())
		origins[key.Value] = globs
	})
	*target = origins
}
