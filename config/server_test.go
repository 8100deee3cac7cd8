package config_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/config"
)

func TestTrustedProxiesAreAddressesAndNetworks(t *testing.T) {
	t.Parallel()
	c, err := load(t, "server: {trusted_proxies: [10.1.2.3/8, 192.0.2.1, '2001:db8::/32', '::ffff:192.0.2.9']}")
	require.NoError(t, err)
	require.Equal(t, []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.1/32"),
		netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("192.0.2.9/32"),
	}, c.Server.Proxies())
	for _, wrong := range []string{"proxy.example", "10.0.0.0/33", "10.0.0.0:80", "*"} {
		require.Equal(t, []string{`file:1: server.trusted_proxies[0]: must be an IP address or a CIDR such as 10.0.0.0/8, not "` + wrong + `"`},
			problemsOf(t, "server: {trusted_proxies: ['"+wrong+"']}"))
	}
}

func TestHostsAreNamesWithoutPort(t *testing.T) {
	t.Parallel()
	c, err := load(t, "server: {allowed_hosts: [api, dlq.example], public_url: 'https://ops.example:8443/dlq'}")
	require.NoError(t, err)
	require.Equal(t, []string{"api", "dlq.example", "ops.example"}, c.Server.Hosts())
	c, err = config.Load("", []string{"DLQ_SERVER_ALLOWED_HOSTS=api,worker"})
	require.NoError(t, err)
	require.Equal(t, []string{"api", "worker"}, c.Server.Hosts())
	for _, wrong := range []string{"*", "*.example", "api:8080", "http://api", "a b"} {
		require.Equal(t, []string{`file:1: server.allowed_hosts[0]: must be a host name or an IP address, without scheme or port, not "` + wrong + `"`},
			problemsOf(t, "server: {allowed_hosts: ['"+wrong+"']}"))
	}
}

func TestOriginsAreThoseThatBrowsersSend(t *testing.T) {
	t.Parallel()
	c, err := load(t, "server: {cors_origins: [https://ops.example, 'http://localhost:3000', 'http://[::1]:3000']}")
	require.NoError(t, err)
	require.Len(t, c.Server.CORSOrigins, 3)
	for _, wrong := range []string{"*", "null", "https://*.example", "https://ops.example/", "https://Ops.example", "ops.example", "https://a@ops.example", "ftp://x"} {
		problems := problemsOf(t, "server: {cors_origins: ['"+wrong+"']}")
		require.Len(t, problems, 1, wrong)
		require.Contains(t, problems[0], "server.cors_origins[0]: must be an origin such as https://ops.example")
	}
}

func TestLimitsMayBeOff(t *testing.T) {
	t.Parallel()
	c, err := load(t, "server: {rate_limit: 0, max_connections: 0, max_connections_per_address: 0}")
	require.NoError(t, err)
	require.Zero(t, c.Server.RateLimit)
	require.Zero(t, c.Server.MaxConnections)
	require.Zero(t, c.Server.MaxConnectionsPerAddress)
}

func TestLimitsWithoutSenseAreRefused(t *testing.T) {
	t.Parallel()
	for setting, problem := range map[string]string{
		"rate_limit: -1":                       "rate_limit: must be 0 to 1000000, not -1",
		"max_connections: -1":                  "max_connections: must be 0 to 1000000, not -1",
		"max_connections_per_address: -1":      "max_connections_per_address: must be 0 to 1000000, not -1",
		"max_scans: 0":                         "max_scans: must be 1 to 1000, not 0",
		"max_plans: 1001":                      "max_plans: must be 1 to 1000, not 1001",
		"max_exports: 0":                       "max_exports: must be 1 to 1000, not 0",
		"url_limit: 100":                       "url_limit: must be at least 1KiB, not 100B",
		"header_limit: 8KiB":                   "header_limit: must be more than server.url_limit (8KiB), which it includes, and at most 1MiB, not 8KiB",
		"header_limit: 2MiB":                   "header_limit: must be more than server.url_limit (8KiB), which it includes, and at most 1MiB, not 2MiB",
		"url_limit: 64KiB, header_limit: 9KiB": "header_limit: must be more than server.url_limit (64KiB), which it includes, and at most 1MiB, not 9KiB",
	} {
		require.Equal(t, []string{"file:1: server." + problem}, problemsOf(t, "server: {"+setting+"}"))
	}
	_, err := load(t, "server: {url_limit: 32KiB, header_limit: 64KiB, max_scans: 1, max_plans: 1000}")
	require.NoError(t, err)
}
