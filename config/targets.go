package config

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"

	"dlqmanager/dlq"
)

// Targets configures targets other than the original topics.
type Targets struct {
	// Routes maps globs of original topics to a topic, or to an endpoint in the form http:NAME.
	Routes map[string]string `yaml:"routes"`
	// Allowed are globs of the targets that an operator may choose for a retry.
	Allowed []string `yaml:"allowed"`
	// Endpoints are the HTTP endpoints, by name.
	Endpoints Endpoints `yaml:"endpoints"`
	// AllowedNetworks are private, loopback and link-local networks in which endpoints may be, such as 10.20.0.0/16. Endpoints
	// with public addresses are always allowed.
	AllowedNetworks []string `yaml:"allowed_networks" check:"network"`
}

// Endpoint is an HTTP endpoint that takes messages.
type Endpoint struct {
	// URL has no password, since errors and the log show the URL. They leave out the query.
	URL string `yaml:"url" check:"required; web URL" log:"no query"`
	// Timeout limits a request until its answer. Its maximum is webhook.MaxTimeout, which is shorter than dlq.ReviveAfter. So
	// if a message is marked dead while it is being sent, the request has ended before anybody can revive the message.
	Timeout Duration `yaml:"timeout" default:"10s" check:"at least 1ms; at most 15s"`
	// Concurrency limits the requests of a worker that are in flight at once.
	Concurrency int `yaml:"concurrency" default:"16" check:"1 to 1000"`
	// SecretsFile has the secrets that sign each request: a secret in each line, the newest first. A changed file is read
	// again.
	SecretsFile string `yaml:"secrets_file" file:"secret"`
	// TokenFile has a bearer token. A changed file is read again.
	TokenFile string `yaml:"token_file" file:"secret"`
}

// Endpoints are HTTP endpoints by name. The environment can set only their URLs:
// shop=https://shop.example/dead-letters,ledger=https://ledger.example.
type Endpoints map[string]Endpoint

// setText reads an endpoint from the environment.
func (e *Endpoint) setText(text string) { e.URL = text }

// Rules returns the rules that choose the target of a message. The configuration is valid, so there is no error.
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
		return // validateTopics in kafka.go reports the error
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
