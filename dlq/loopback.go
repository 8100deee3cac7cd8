package dlq

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// IsLoopback reports whether a host, with or without a port, is this machine by its name or address.
func IsLoopback(host string) bool {
	name := withoutPort(host)
	ip, err := netip.ParseAddr(name)
	return strings.EqualFold(name, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// IsOwnHost reports whether a request for a host, with or without a port, may be answered without
// authentication: for an IP address, localhost or any of the names. The owner of any other name can let the name resolve to
// this server (DNS rebinding). Then a page of that name could read the answers in a browser.
func IsOwnHost(host string, names []string) bool {
	name := withoutPort(host)
	_, err := netip.ParseAddr(name)
	return err == nil || strings.EqualFold(name, "localhost") ||
		slices.ContainsFunc(names, func(own string) bool { return strings.EqualFold(own, name) })
}

func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}
