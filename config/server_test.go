package config_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
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
	c, err := load(t, "server: {rate_limit: 0, max_connections: 0}")
	require.NoError(t, err)
	require.Zero(t, c.Server.RateLimit)
	require.Zero(t, c.Server.MaxConnections)
	require.Len(t, problemsOf(t, "server: {rate_limit: -1, max_connections: -1}"), 2)
}
