package api

import (
	"context"
	"net"
	"net/http"
	"net/netip"

	"go.uber.org/zap"
)

// InMemory returns a transport that reaches this server without a network. Its requests belong to the client, and to the
// request, whose context they have: limits, audit and log name the browser of a page, and not the page's server. It
// answers while Serve runs.
func (s *Server) InMemory() http.RoundTripper {
	return &inMemory{&http.Transport{
		DisableKeepAlives:  true, // a connection belongs to one client
		DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			address, _ := ctx.Value(clientKey{}).(string)
			from, _ := netip.ParseAddr(address)
			return s.memory.DialWithLocalAddr(net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)))
		},
	}}
}

type inMemory struct{ transport http.RoundTripper }

func (m *inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	if id, ok := r.Context().Value(requestIDKey{}).(string); ok {
		r = r.Clone(r.Context())
		r.Header.Set(headerRequestID, id)
	}
	return m.transport.RoundTrip(r)
}

// serveMemory answers the requests of InMemory until the server stops.
func (s *Server) serveMemory() {
	if err := s.app.Server().Serve(s.memory); err != nil {
		s.options.Logger.Error("the pages cannot reach the API", zap.Error(err))
	}
}
