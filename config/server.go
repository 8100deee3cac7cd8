package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// Server configures the REST API's listener and its limits.
type Server struct {
	// Host defaults to loopback, since the API changes data.
	Host string `yaml:"host"`
	Port int    `yaml:"port"`
	// PublicURL is where people reach the API, for links in Temporal; empty for none.
	PublicURL string `yaml:"public_url"`
	// AllowedHosts are more names by which the API and the worker are reached without a token.
	AllowedHosts []string `yaml:"allowed_hosts"`
	// RetryWait is how long a retry call waits for its workflow before it
	// answers 202.
	RetryWait Duration `yaml:"retry_wait"`
	// ReadTimeout also limits how long a stop waits for idle connections.
	ReadTimeout  Duration `yaml:"read_timeout"`
	WriteTimeout Duration `yaml:"write_timeout"`
	IdleTimeout  Duration `yaml:"idle_timeout"`
	// RequestTimeout is the deadline of the work for one request.
	RequestTimeout Duration `yaml:"request_timeout"`
	// DryRunTimeout replaces RequestTimeout for a dry run, which counts all messages
	// that it would send.
	DryRunTimeout Duration `yaml:"dry_run_timeout"`
	// BodyLimit is the largest request body; a larger one is refused with 413.
	BodyLimit Size `yaml:"body_limit"`
	// AnswerMemory is the budget for all answers in flight; 0 is half of the memory limit of the
	// process.
	AnswerMemory Size `yaml:"answer_memory"`
	// URLLimit is the longest path and query; a longer one is refused with 414. HeaderLimit
	// counts the request line too; beyond it the answer is 431.
	URLLimit    Size `yaml:"url_limit"`
	HeaderLimit Size `yaml:"header_limit"`
	// RateLimit is how many requests a second a client may send to each route;
	// 0 is no limit.
	RateLimit int `yaml:"rate_limit"`
	// MaxConnections is how many connections may be open; 0 is no limit.
	MaxConnections int `yaml:"max_connections"`
	// MaxConnectionsPerAddress is how many of them one client address may have, unless it is
	// that of a trusted proxy; 0 is no limit.
	MaxConnectionsPerAddress int `yaml:"max_connections_per_address"`
	// MaxScans is how many lists that read many messages run at once, MaxDryRuns how many dry
	// runs.
	MaxScans   int `yaml:"max_scans"`
	MaxDryRuns int `yaml:"max_dry_runs"`
	// TrustedProxies are addresses and CIDRs whose X-Forwarded-For header is believed.
	TrustedProxies []string `yaml:"trusted_proxies"`
	// CORSOrigins are the origins whose pages may call the API from a browser.
	CORSOrigins []string `yaml:"cors_origins"`
	// ShutdownTimeout is how long a stop waits for requests in flight.
	ShutdownTimeout Duration `yaml:"shutdown_timeout"`
	// DrainDelay is how long /readyz answers 503 before connections are refused. Load
	// balancers can remove this server meanwhile.
	DrainDelay Duration  `yaml:"drain_delay"`
	TLS        ServerTLS `yaml:"tls"`
}

func defaultServer() Server {
	return Server{
		Host:           "127.0.0.1",
		Port:           8080,
		RetryWait:      Duration(10 * time.Second),
		ReadTimeout:    Duration(10 * time.Second),
		WriteTimeout:   Duration(30 * time.Second),
		IdleTimeout:    Duration(60 * time.Second),
		RequestTimeout: Duration(15 * time.Second),
		DryRunTimeout:  Duration(time.Minute),
		BodyLimit:      1 << 20,
		RateLimit:      500,
		MaxConnections: 1000, MaxConnectionsPerAddress: 250,
		URLLimit: 8 << 10, HeaderLimit: 16 << 10, MaxScans: 4, MaxDryRuns: 2,
		ShutdownTimeout: Duration(20 * time.Second),
		DrainDelay:      Duration(3 * time.Second),
	}
}

// Address is host:port, as net.Listen takes it.
func (s Server) Address() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

// Hosts returns the names of the server: of PublicURL and AllowedHosts.
func (s Server) Hosts() []string {
	hosts := slices.Clone(s.AllowedHosts)
	if public, err := url.Parse(s.PublicURL); err == nil && public.Hostname() != "" {
		hosts = append(hosts, public.Hostname())
	}
	return hosts
}

// Proxies returns TrustedProxies of a valid configuration.
func (s Server) Proxies() []netip.Prefix {
	networks := make([]netip.Prefix, 0, len(s.TrustedProxies))
	for _, proxy := range s.TrustedProxies {
		if network, err := parseNetwork(proxy); err == nil {
			networks = append(networks, network)
		}
	}
	return networks
}

// parseNetwork reads a CIDR, or an address as the network that consists of it.
func parseNetwork(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		return address.Unmap().Prefix(address.Unmap().BitLen())
	}
	network, err := netip.ParsePrefix(text)
	return network.Masked(), err
}

func (s Server) validate(r *report) {
	r.host("server.host", s.Host)
	r.port("server.port", s.Port)
	s.TLS.validate(r)
	if s.PublicURL != "" {
		r.webURL("server.public_url", s.PublicURL)
	}
	for i, host := range s.AllowedHosts {
		r.host(fmt.Sprintf("server.allowed_hosts[%d]", i), host)
	}
	r.atLeast("server.retry_wait", s.RetryWait, 0)
	r.atLeast("server.read_timeout", s.ReadTimeout, time.Millisecond)
	r.atLeast("server.write_timeout", s.WriteTimeout, time.Millisecond)
	r.atLeast("server.idle_timeout", s.IdleTimeout, time.Millisecond)
	r.atLeast("server.request_timeout", s.RequestTimeout, time.Millisecond)
	r.atLeast("server.dry_run_timeout", s.DryRunTimeout, time.Millisecond)
	r.atMost("server.dry_run_timeout", s.DryRunTimeout, 24*time.Hour) // its snapshot keeps VACUUM from removing newer dead rows
	r.atLeast("server.shutdown_timeout", s.ShutdownTimeout, 0)
	r.atLeast("server.drain_delay", s.DrainDelay, 0)
	if s.BodyLimit < 1 {
		r.add("server.body_limit", "must be at least 1 byte")
	}
	if s.AnswerMemory != 0 && s.AnswerMemory < 64<<20 { // a client may use half of it, and a list needs 22 MiB
		r.add("server.answer_memory", "must be at least 64MiB, or 0 for half of the memory limit, not %s", s.AnswerMemory)
	}
	if s.URLLimit < 1<<10 { // names of topics and cursors are part of it
		r.add("server.url_limit", "must be at least 1KiB, not %s", s.URLLimit)
	}
	if s.HeaderLimit <= s.URLLimit || s.HeaderLimit > 1<<20 { // each connection has a buffer of this size
		r.add("server.header_limit", "must be more than server.url_limit (%s), which it includes, and at most 1MiB, not %s", s.URLLimit, s.HeaderLimit)
	}
	r.between("server.rate_limit", s.RateLimit, 0, 1_000_000)
	r.between("server.max_connections", s.MaxConnections, 0, 1_000_000)
	r.between("server.max_connections_per_address", s.MaxConnectionsPerAddress, 0, 1_000_000)
	r.between("server.max_scans", s.MaxScans, 1, 1000)
	r.between("server.max_dry_runs", s.MaxDryRuns, 1, 1000)
	for i, proxy := range s.TrustedProxies {
		if _, err := parseNetwork(proxy); err != nil {
			r.add(fmt.Sprintf("server.trusted_proxies[%d]", i), "must be an IP address or a CIDR such as 10.0.0.0/8, not %q", proxy)
		}
	}
	for i, origin := range s.CORSOrigins {
		r.origin(fmt.Sprintf("server.cors_origins[%d]", i), origin)
	}
	// An answer after the deadline of its own request would never be sent.
	if s.RequestTimeout <= s.RetryWait {
		r.add("server.request_timeout", "must be longer than server.retry_wait (%s), not %s", s.RetryWait, s.RequestTimeout)
	}
	if s.WriteTimeout <= s.RequestTimeout {
		r.add("server.write_timeout", "must be longer than server.request_timeout (%s), not %s", s.RequestTimeout, s.WriteTimeout)
	}
}
