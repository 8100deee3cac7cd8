package config

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"

	"dlqmanager/dlq"
)

// Targets configures where messages go that do not go back to their original topic.
type Targets struct {
	// Routes maps globs of original topics to a topic, or to http:NAME for an endpoint.
	Routes map[string]string `yaml:"routes"`
	// Allowed has globs of the targets that an operator may name for a retry.
	Allowed []string `yaml:"allowed"`
	// Endpoints are the HTTP endpoints by name.
	Endpoints Endpoints `yaml:"endpoints"`
	// AllowedNetworks are the private, loopback and link-local networks in which endpoints may
	// be, such as 10.20.0.0/16. Public addresses are always allowed.
	AllowedNetworks []string `yaml:"allowed_networks" check:"network"`
}

// Endpoint is an HTTP endpoint that takes messages.
type Endpoint struct {
	// URL has no password: errors and the log show the URL, without the query.
	URL string `yaml:"url" check:"required; web URL" log:"no query"`
	// Timeout limits a request with its answer. Its maximum is webhook.MaxTimeout, which is shorter
	// than dlq.ReviveAfter: if a message is marked dead while it is being sent, the request must
	// have ended before anybody can revive the message.
	Timeout Duration `yaml:"timeout" default:"10s" check:"at least 1ms; at most 15s"`
	// Concurrency is how many requests of a worker are in flight at once.
	Concurrency int `yaml:"concurrency" default:"16" check:"1 to 1000"`
	// SecretsFile has the secrets that sign each request, line by line, the newest first. The file
	// is read again when it changes.
	SecretsFile string `yaml:"secrets_file" file:"secret"`
	// TokenFile has a bearer token. It is read again when it changes.
	TokenFile string `yaml:"token_file" file:"secret"`
}

// Endpoints are HTTP endpoints by name. In the environment only their URLs can be set:
// shop=https://shop.example/dead-letters,ledger=https://ledger.example.
type Endpoints map[string]Endpoint

// setText reads the form of the environment.
func (e *Endpoint) setText(text string) { e.URL = text }

// Rules returns the rules of where messages go. The configuration is valid, so there is no error.
func (t Targets) Rules(topics *dlq.Topics) *dlq.Targets {
	rules, _ := dlq.NewTargets(topics, t.Routes, t.Allowed, slices.Sorted(maps.Keys(t.Endpoints)))
	return rules
}

// Networks returns AllowedNetworks.
func (t Targets) Networks() []netip.Prefix { return networksOf(t.AllowedNetworks) }

func (c *Config) validateTargets(s section) {
	t := c.Targets
	names := slices.Sorted(maps.Keys(t.Endpoints))
	for _, name := range names {
		s.refuse(!endpointName.MatchString(name), "targets.endpoints."+name,
			"the name of an endpoint has small letters, digits, and . _ - inside, and at most 63 of them")
	}
	topics, err := dlq.NewTopics(c.Kafka.DLQTopicPattern, nil)
	if err != nil {
		return // validateTopics of Kafka reports the error
	}
	topics.AllowInternal(t.Allowed)
	for _, glob := range slices.Sorted(maps.Keys(t.Routes)) {
		_, err := dlq.NewTargets(topics, map[string]string{glob: t.Routes[glob]}, nil, names)
		s.refuseError("targets.routes", err)
	}
	for i, glob := range t.Allowed {
		_, err := dlq.NewTargets(topics, nil, []string{glob}, names)
		s.refuseError(fmt.Sprintf("targets.allowed[%d]", i), err)
	}
}

var endpointName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
