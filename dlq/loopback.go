package dlq

import (
	"net"
	"net/netip"
	"strings"
)

// IsLoopback reports whether a host, with or without a port, is this machine by its name or
// address.
func IsLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}
