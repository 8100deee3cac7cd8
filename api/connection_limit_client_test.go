package api

import (
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// connectionFrom is a connection from an address. Nothing is sent on it.
type connectionFrom struct {
	net.Conn
	address net.Addr
}

func (c connectionFrom) RemoteAddr() net.Addr { return c.address }

func from(address string) net.Conn {
	return connectionFrom{address: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))}
}

func TestAConnectionCountsForItsClientUnlessThatIsAProxy(t *testing.T) {
	t.Parallel()
	s := &Server{}
	s.options.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("fe80::/64")}
	c := &connections{isProxy: s.trusts}
	require.Equal(t, "198.51.100.1", c.client(from("198.51.100.1:7")))
	require.Equal(t, "198.51.100.1", c.client(from("[::ffff:198.51.100.1]:7")))
	require.Equal(t, "198.51.100.1", c.client(tls.Server(from("198.51.100.1:7"), &tls.Config{MinVersion: tls.VersionTLS12})))
	ipv6 := c.client(from("[2001:db8::1]:7"))
	require.NotEmpty(t, ipv6)
	require.Equal(t, ipv6, c.client(from("[2001:db8::ffff:2]:7")), "of the same /64")
	require.NotEqual(t, ipv6, c.client(from("[2001:db8:0:1::1]:7")))
	require.Equal(t, c.client(from("[fe80:1::1]:7")), c.client(from("[fe80:1::1%eth0]:7")))
	for _, proxy := range []string{"192.0.2.1:7", "[::ffff:192.0.2.1]:7", "[fe80::1]:7", "[fe80::1%eth0]:7"} {
		require.Empty(t, c.client(from(proxy)), proxy)
	}
	require.Empty(t, c.client(connectionFrom{address: &net.UnixAddr{}}))
}

func TestATLSClientThatIsRefusedGetsNoAnswer(t *testing.T) {
	t.Parallel()
	server, client := net.Pipe()
	go refuse(tls.Server(server, &tls.Config{MinVersion: tls.VersionTLS12}), "too many connections are open")
	answer, err := io.ReadAll(client)
	require.NoError(t, err)
	require.Empty(t, answer)
}
