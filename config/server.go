package config

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
)

// Server configures the listener of the REST API and its limits.
type Server struct {
	// Host defaults to loopback, since the API changes data.
	Host string `yaml:"host" default:"127.0.0.1" check:"required; host"`
	Port int    `yaml:"port" default:"8080" check:"1 to 65535"`
	// PublicURL is where people reach the API. Temporal and dlqctl login get links with this URL. Empty for no links.
	PublicURL string `yaml:"public_url" check:"web URL"`
	// AllowedHosts are host names of the API and the worker, in addition to the host of PublicURL. Clients without a token may
	// use these names, localhost and IP addresses.
	AllowedHosts []string `yaml:"allowed_hosts" check:"required; host"`
	// RetryWait is how long a retry call waits for its workflow. Then the call is answered with 202.
	RetryWait Duration `yaml:"retry_wait" default:"10s"`
	// ReadTimeout also limits how long a stop waits for idle connections.
	ReadTimeout  Duration `yaml:"read_timeout" default:"10s" check:"at least 1ms"`
	WriteTimeout Duration `yaml:"write_timeout" default:"30s" check:"at least 1ms"`
	IdleTimeout  Duration `yaml:"idle_timeout" default:"60s" check:"at least 1ms"`
	// RequestTimeout limits the work for a request.
	RequestTimeout Duration `yaml:"request_timeout" default:"15s" check:"at least 1ms"`
	// PlanTimeout replaces RequestTimeout for a plan, which counts all messages of a job. While PostgreSQL counts, VACUUM
	// cannot remove rows that have died since the count began.
	PlanTimeout Duration `yaml:"plan_timeout" default:"1m" check:"at least 1ms; at most 1d"`
	// BodyLimit is the largest request body; a larger body is refused with 413.
	BodyLimit Size `yaml:"body_limit" default:"1MiB" check:"at least 1B"`
	// AnswerMemory is the budget for all answers in flight. 0 is half of the memory limit of the process.
	AnswerMemory Size `yaml:"answer_memory"`
	// URLLimit limits path and query together. A longer URL is refused with 414. HeaderLimit limits the request line and the
	// headers together. A request with more is refused with 431. Each connection has a buffer of HeaderLimit bytes.
	URLLimit    Size `yaml:"url_limit" default:"8KiB" check:"at least 1KiB"`
	HeaderLimit Size `yaml:"header_limit" default:"16KiB"`
	// RateLimit is how many requests a client may send to each route in a second. 0 is no limit.
	RateLimit int `yaml:"rate_limit" default:"500" check:"0 to 1000000"`
	// MaxConnections limits the open connections. 0 is no limit.
	MaxConnections int `yaml:"max_connections" default:"1000" check:"0 to 1000000"`
	// MaxConnectionsPerAddress limits the open connections of a client address. Trusted proxies have no such limit. 0 is no
	// limit.
	MaxConnectionsPerAddress int `yaml:"max_connections_per_address" default:"250" check:"0 to 1000000"`
	// MaxScans limits how many lists of many messages are read at once. MaxPlans limits how many plans are made at once.
	MaxScans int `yaml:"max_scans" default:"4" check:"1 to 1000"`
	MaxPlans int `yaml:"max_plans" default:"2" check:"1 to 1000"`
	// MaxExports limits the exports that run at once.
	MaxExports int `yaml:"max_exports" default:"4" check:"1 to 1000"`
	// TrustedProxies are addresses and CIDRs whose X-Forwarded-For header is believed.
	TrustedProxies []string `yaml:"trusted_proxies" check:"proxy"`
	// CORSOrigins are the origins whose pages may call the API from a browser.
	CORSOrigins []string `yaml:"cors_origins" check:"origin"`
	// ShutdownTimeout is how long a stop waits for requests in flight.
	ShutdownTimeout Duration `yaml:"shutdown_timeout" default:"20s"`
	// DrainDelay is how long /readyz answers 503 before connections are refused, so that load balancers can remove this server.
	DrainDelay Duration  `yaml:"drain_delay" default:"3s"`
	TLS        ServerTLS `yaml:"tls"`
}

// Address is host:port for net.Listen.
func (v Server) Address() string { return net.JoinHostPort(v.Host, strconv.Itoa(v.Port)) }

// Hosts returns the names of the server: the host of PublicURL, and AllowedHosts.
func (v Server) Hosts() []string {
	hosts := slices.Clone(v.AllowedHosts)
	if public, err := url.Parse(v.PublicURL); err == nil && public.Hostname() != "" {
		hosts = append(hosts, public.Hostname())
	}
	return hosts
}

// Proxies returns TrustedProxies of a valid configuration.
func (v Server) Proxies() []netip.Prefix { return networksOf(v.TrustedProxies) }

// networksOf parses the networks of a valid configuration.
func networksOf(texts []string) []netip.Prefix {
	networks := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		networks[i], _ = parseNetwork(text)
	}
	return networks
}

// parseNetwork reads a CIDR. An address becomes the network that has only this address.
func parseNetwork(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		return address.Unmap().Prefix(address.Unmap().BitLen())
	}
	network, err := netip.ParsePrefix(text)
	return network.Masked(), err
}

func (v Server) validate(s section) {
	// A client may use half of the memory. A list needs 22 MiB, or 38 MiB with masking.
	s.refuse(v.AnswerMemory != 0 && v.AnswerMemory < 80<<20,
		"answer_memory", "must be at least 80MiB, or 0 for half of the memory limit, not %s", v.AnswerMemory)
	s.refuse(v.HeaderLimit <= v.URLLimit || v.HeaderLimit > 1<<20,
		"header_limit", "must be more than server.url_limit (%s), which it includes, and at most 1MiB, not %s", v.URLLimit, v.HeaderLimit)
	// An answer after the deadline of its own request is never sent.
	s.refuse(v.RequestTimeout <= v.RetryWait,
		"request_timeout", "must be longer than server.retry_wait (%s), not %s", v.RetryWait, v.RequestTimeout)
	s.refuse(v.WriteTimeout <= v.RequestTimeout,
		"write_timeout", "must be longer than server.request_timeout (%s), not %s", v.RequestTimeout, v.WriteTimeout)
}
