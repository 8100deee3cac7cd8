package webhook

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// guardedNetworks have addresses that are not on the public internet. They also have the IPv6 addresses of tunnels that lead to
// IPv4 addresses, which the guard cannot see.
var guardedNetworks = prefixes(
	"0.0.0.0/8",       // this host
	"10.0.0.0/8",      // private
	"100.64.0.0/10",   // carrier-grade NAT
	"127.0.0.0/8",     // loopback
	"169.254.0.0/16",  // link-local; also the metadata services of clouds
	"172.16.0.0/12",   // private
	"192.0.0.0/24",    // protocol assignments
	"192.0.2.0/24",    // documentation
	"192.88.99.0/24",  // 6to4 relays
	"192.168.0.0/16",  // private
	"198.18.0.0/15",   // benchmarks
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"224.0.0.0/4",     // multicast
	"240.0.0.0/4",     // reserved, and broadcast
	"2001::/23",       // protocol assignments: Teredo, benchmarks
	"2001:db8::/32",   // documentation
	"2002::/16",       // 6to4
	"3fff::/20",       // documentation
	// Azure's platform has this address in every network. Its wire server gives out credentials.
	"168.63.129.16/32",
)

// publicIPv6 has all public IPv6 addresses. It excludes loopback, private (fc00::/7), link-local (fe80::/10), multicast, NAT64
// (64:ff9b::/96) and IPv4-compatible addresses.
var publicIPv6 = netip.MustParsePrefix("2000::/3")

func prefixes(networks ...string) []netip.Prefix {
	parsed := make([]netip.Prefix, len(networks))
	for i, network := range networks {
		parsed[i] = netip.MustParsePrefix(network)
	}
	return parsed
}

// guard refuses connections to addresses that are not public, unless they are in an allowed network. It checks each address
// just before the connection. So a name that resolves to another address at each look-up does not pass.
type guard struct{ allowed []netip.Prefix }

// guardError is the error of a connection that the guard refuses.
type guardError struct{ address netip.Addr }

func (e *guardError) Error() string {
	return fmt.Sprintf("the address %s is not public; an administrator can add its network to targets.allowed_networks", e.address)
}

func (g guard) check(address netip.Addr) error {
	plain := address.Unmap().WithZone("")
	if contains(g.allowed, plain) {
		return nil
	}
	if !plain.IsValid() || contains(guardedNetworks, plain) || plain.Is6() && !publicIPv6.Contains(plain) {
		return &guardError{address}
	}
	return nil
}

func contains(networks []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(networks, func(network netip.Prefix) bool { return network.Contains(address) })
}

// control is called with the address of each connection before it is made.
func (g guard) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return g.check(parsed.Addr())
}
