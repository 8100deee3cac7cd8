package config

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

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
	AllowedNetworks []string `yaml:"allowed_networks"`
}

// Endpoint is an HTTP endpoint that takes messages.
type Endpoint struct {
	URL string `yaml:"url"`
	// Timeout is for one request with its answer.
	Timeout Duration `yaml:"timeout"`
	// Concurrency is how many requests of one worker are in flight at once.
	Concurrency int `yaml:"concurrency"`
	// SecretsFile has the secrets that sign each request, one on a line, the newest first. It
	// is read again when it changes.
	SecretsFile string `yaml:"secrets_file"`
	// TokenFile has a bearer token. It is read again when it changes.
	TokenFile string `yaml:"token_file"`
}

// Endpoints are HTTP endpoints by name. In the environment only their URLs can be set:
// shop=https://shop.example/dead-letters,ledger=https://ledger.example.
type Endpoints map[string]Endpoint

func defaultEndpoint() Endpoint {
	return Endpoint{Timeout: Duration(10 * time.Second), Concurrency: 16}
}

// Rules is what decides where messages go. The configuration is valid, so it has no error.
func (t Targets) Rules(topics *dlq.Topics) *dlq.Targets {
	rules, _ := t.rules(topics)
	return rules
}

func (t Targets) rules(topics *dlq.Topics) (*dlq.Targets, error) {
	return dlq.NewTargets(topics, t.Routes, t.Allowed, slices.Sorted(maps.Keys(t.Endpoints)))
}

// Networks are AllowedNetworks.
func (t Targets) Networks() []netip.Prefix {
	networks := make([]netip.Prefix, 0, len(t.AllowedNetworks))
	for _, text := range t.AllowedNetworks {
		network, _ := netip.ParsePrefix(text)
		networks = append(networks, network)
	}
	return networks
}

func (c *Config) validateTargets(r *report) {
	t := c.Targets
	t.Endpoints.validate(r)
	for i, text := range t.AllowedNetworks {
		network, err := netip.ParsePrefix(text)
		if err != nil || network != network.Masked() {
			r.add(fmt.Sprintf("targets.allowed_networks[%d]", i), "must be a network such as 10.20.0.0/16, not %q", text)
		}
	}
	topics, err := dlq.NewTopics(c.Kafka.DLQTopicPattern, nil)
	if err != nil {
		return // validateTopics of Kafka reports it
	}
	topics.AllowInternal(t.Allowed)
	names := slices.Sorted(maps.Keys(t.Endpoints))
	for _, glob := range slices.Sorted(maps.Keys(t.Routes)) {
		if _, err := dlq.NewTargets(topics, map[string]string{glob: t.Routes[glob]}, nil, names); err != nil {
			r.add("targets.routes", "%s", err)
		}
	}
	for i, glob := range t.Allowed {
		if _, err := dlq.NewTargets(topics, nil, []string{glob}, names); err != nil {
			r.add(fmt.Sprintf("targets.allowed[%d]", i), "%s", err)
		}
	}
}

var endpointName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

func (e Endpoints) validate(r *report) {
	for _, name := range slices.Sorted(maps.Keys(e)) {
		path, endpoint := "targets.endpoints."+name, e[name]
		if !endpointName.MatchString(name) {
			r.add(path, "the name of an endpoint has small letters, digits, and . _ - inside, and at most 63 of them")
		}
		r.endpointURL(path+".url", endpoint.URL)
		if endpoint.Timeout <= 0 {
			r.add(path+".timeout", "must be more than 0s")
		} else {
			r.atMost(path+".timeout", endpoint.Timeout, maxEndpointTimeout)
		}
		r.between(path+".concurrency", endpoint.Concurrency, 1, 1000)
	}
}

// maxEndpointTimeout is webhook.MaxTimeout. It is shorter than dlq.ReviveAfter: a message that
// was marked dead while it was sent must have been answered before it may be revived.
const maxEndpointTimeout = 15 * time.Second

// endpointURL checks the URL of an endpoint. Errors and the log show it, so it has no
// password.
func (r *report) endpointURL(path, value string) {
	parsed, err := url.Parse(value)
	switch {
	case value == "":
		r.add(path, "is required")
	case err != nil, parsed.Hostname() == "", parsed.Fragment != "", parsed.Scheme != "https" && parsed.Scheme != "http":
		r.add(path, "must be an http or https URL without a fragment")
	case parsed.User != nil:
		r.add(path, "must not contain a user or password; use token_file")
	}
}

// String is the form of the environment. Queries are left out, since they may have secrets.
func (e Endpoints) String() string {
	pairs := make([]string, 0, len(e))
	for _, name := range slices.Sorted(maps.Keys(e)) {
		shown, _, _ := strings.Cut(e[name].URL, "?")
		pairs = append(pairs, name+"="+shown)
	}
	return strings.Join(pairs, ",")
}

// UnmarshalText reads the form of the environment.
func (e *Endpoints) UnmarshalText(text []byte) error {
	var pairs map[string]string
	if err := setText(reflect.ValueOf(&pairs).Elem(), string(text)); err != nil {
		return err
	}
	*e = Endpoints{}
	for name, address := range pairs {
		endpoint := defaultEndpoint()
		endpoint.URL = address
		(*e)[name] = endpoint
	}
	return nil
}

// endpoints reads a mapping of names to endpoints.
func (d *decoder) endpoints(path string, node *yaml.Node, target *Endpoints) {
	if node.Kind != yaml.MappingNode {
		d.add(node.Line, path, "must be a mapping of names to endpoints, not %s", describe(node))
		return
	}
	*target = Endpoints{}
	d.pairs(path, node, func(key, value *yaml.Node, keyPath string) {
		d.sources[keyPath] = source{file: d.file, line: key.Line}
		endpoint := defaultEndpoint()
		d.section(keyPath, resolveAlias(value), reflect.ValueOf(&endpoint).Elem())
		(*target)[key.Value] = endpoint
	})
}
