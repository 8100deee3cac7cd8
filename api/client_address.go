package api

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
)

type clientKey struct{}

// clientOf returns the address of the client, which assignClient has set.
func clientOf(c *fiber.Ctx) string {
	address, _ := c.Locals(clientKey{}).(string)
	return address
}

// assignClient finds the address of the client. A proxy appends the address that called it to X-Forwarded-For. So the header is
// read from its end, as long as trusted proxies wrote the addresses. The client may have invented all addresses before that.
func (s *Server) assignClient(c *fiber.Ctx) {
	address, _ := netip.AddrFromSlice(c.Context().RemoteIP())
	address = address.Unmap()
	if s.trusts(address) {
		address = s.forwardedFor(c, address)
	}
	c.Locals(clientKey{}, address.String())
}

func (s *Server) forwardedFor(c *fiber.Ctx, proxy netip.Addr) netip.Addr {
	header := string(bytes.Join(c.Request().Header.PeekAll(fiber.HeaderXForwardedFor), []byte(",")))
	for _, hop := range slices.Backward(strings.Split(header, ",")) {
		before, ok := parseHop(strings.TrimSpace(hop))
		if !ok {
			return proxy
		}
		if proxy = before; !s.trusts(proxy) {
			return proxy
		}
	}
	return proxy
}

// parseHop reads an address with or without a port.
func parseHop(hop string) (netip.Addr, bool) {
	address, err := netip.ParseAddr(hop)
	if withPort, withErr := netip.ParseAddrPort(hop); withErr == nil {
		address, err = withPort.Addr(), nil
	}
	return address.Unmap().WithZone(""), err == nil
}

func (s *Server) trusts(address netip.Addr) bool {
	return slices.ContainsFunc(s.options.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(address) })
}
