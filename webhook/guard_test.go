package webhook

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestOnlyPublicAddressesPassTheGuard(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.0.1", "168.63.129.16", "::ffff:168.63.129.16", "169.254.169.254",
		"172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1",
		"224.0.0.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1",
		"100::1", "2001::1", "2001:2::1", "2001:db8::1", "2002:7f00:1::1", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1",
	} {
		require.Error(t, guard{}.check(netip.MustParseAddr(address)), address)
	}
	for _, address := range []string{"8.8.8.8", "::ffff:8.8.8.8", "100.63.255.255", "100.128.0.1", "168.63.129.15", "168.63.129.17", "172.15.0.1", "172.32.0.1", "192.0.1.1", "2606:4700::1111", "2a00:1450::1"} {
		require.NoError(t, guard{}.check(netip.MustParseAddr(address)), address)
	}
	allowing := guard{prefixes("10.20.0.0/16", "fe80::/10", "::1/128")}
	for _, address := range []string{"10.20.1.1", "::ffff:10.20.1.1", "fe80::1%eth0", "::1"} {
		require.NoError(t, allowing.check(netip.MustParseAddr(address)), address)
	}
	for _, address := range []string{"10.21.1.1", "127.0.0.1", "::2"} {
		require.Error(t, allowing.check(netip.MustParseAddr(address)), address)
	}
}

// Each of these URLs leads to a server on loopback, at least with some HTTP clients.
func TestNoSpellingOfALoopbackAddressReachesIt(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	address, err := url.Parse(serve(t, func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	require.NoError(t, err)
	port := address.Port()
	for _, host := range []string{
		"127.0.0.1", "localhost", "LOCALHOST", "localhost.", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "127.1", "0", "0.0.0.0", "127.0.0.1.",
		"[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[0:0:0:0:0:ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
		"public.example@127.0.0.1", "public.example:443@127.0.0.1", "127%2e0%2e0%2e1", "①②⑦.⓪.⓪.①", "169.254.169.254", "[fd00:ec2::254]",
	} {
		b := newBench(t, "http://"+host+":"+port+"/", func(o *Options, e *Endpoint) {
			o.AllowedNetworks, o.resolver = nil, noNames()
			e.Timeout = time.Second
		})
		err := b.errorOf(message("", "x"))
		require.Error(t, err, host)
		if strings.Contains(err.Error(), "is not public") {
			var refused *dlq.DeliveryError
			require.ErrorAs(t, err, &refused)
			require.True(t, refused.TargetOnly && refused.Category == dlq.CategoryAuth && !refused.MaybeMessage, host)
		}
	}
	require.Zero(t, requests.Load())
}

func TestANameThatResolvesToAnotherAddressLaterIsRefused(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	address, err := url.Parse(serve(t, func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	require.NoError(t, err)
	names := rebinding(t, "93.184.216.34", "127.0.0.1")
	first, err := names.LookupNetIP(t.Context(), "ip4", "rebind.example.")
	require.NoError(t, err)
	require.NoError(t, guard{}.check(first[0]), "a check of the name alone would accept it")
	b := newBench(t, "http://rebind.example.:"+address.Port(), func(o *Options, _ *Endpoint) { o.AllowedNetworks, o.resolver = nil, names })
	require.ErrorContains(t, b.errorOf(message("", "x")), "the address 127.0.0.1 is not public")
	require.Zero(t, requests.Load())
}

func TestAProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	var proxied atomic.Int32
	t.Setenv("HTTP_PROXY", serve(t, func(http.ResponseWriter, *http.Request) { proxied.Add(1) }))
	b := newBench(t, "http://nowhere.invalid/", func(o *Options, _ *Endpoint) { o.resolver = noNames() })
	require.Error(t, b.errorOf(message("", "x")))
	require.Zero(t, proxied.Load())
}

// noNames is a resolver whose name server cannot be reached.
func noNames() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }}
}

// rebinding is a resolver whose name server answers with one address after the other. It repeats the last address.
func rebinding(t *testing.T, addresses ...string) *net.Resolver {
	t.Helper()
	server, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		query := make([]byte, 512)
		for n := 0; ; {
			size, from, err := server.ReadFrom(query)
			if err != nil {
				return
			}
			end := 12 + bytes.IndexByte(query[12:size], 0) + 5 // the end of the name, its type and its class
			answer := append(bytes.Clone(query[:2]), 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0)
			answer = append(answer, query[12:end]...)
			if kind := binary.BigEndian.Uint16(query[end-4:]); kind == 1 {
				answer[7] = 1
				answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
				answer = append(answer, net.ParseIP(addresses[n]).To4()...)
				n = min(n+1, len(addresses)-1)
			}
			_, _ = server.WriteTo(answer, from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}
