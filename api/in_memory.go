package api

import (
	"context"
	"net"
	"net/http"
	"net/netip"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"
	"go.uber.org/zap"
)

// memoryServer answers the requests that pages send without a network. Its HTTP server stops after the HTTP server of the
// network, so that a page in progress still reaches the API. Its connections do not count for the limits.
type memoryServer struct {
	listener *fasthttputil.InmemoryListener
	server   *fasthttp.Server
}

func (s *Server) newMemory() *memoryServer {
	network := s.app.Server()
	return &memoryServer{fasthttputil.NewInmemoryListener(), &fasthttp.Server{
		Handler: network.Handler, ErrorHandler: network.ErrorHandler, Name: network.Name, NoDefaultServerHeader: true, NoDefaultContentType: true,
		SecureErrorLogMessage: true, ReadBufferSize: network.ReadBufferSize, MaxRequestBodySize: network.MaxRequestBodySize,
		ReadTimeout: network.ReadTimeout, WriteTimeout: network.WriteTimeout, IdleTimeout: network.IdleTimeout,
	}}
}

// InMemory returns a transport that reaches this server without a network. The context of a request names the client of the
// page, and the id of the request for the page. So limits, audit and log name the browser, and not the server of the pages. The
// transport works while Serve runs.
func (s *Server) InMemory() http.RoundTripper {
	return &inMemory{&http.Transport{
		DisableKeepAlives:  true, // a connection belongs to one client
		DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			address, _ := ctx.Value(clientKey{}).(string)
			from, _ := netip.ParseAddr(address)
			return s.memory.listener.DialWithLocalAddr(net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)))
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
	if err := s.memory.server.Serve(s.memory.listener); err != nil {
		s.options.Logger.Error("the pages cannot reach the API", zap.Error(err))
	}
}

// shutdown returns when the requests in flight are answered or ctx ends.
func (m *memoryServer) shutdown(ctx context.Context) error {
	err := m.server.ShutdownWithContext(ctx)
	_ = m.listener.Close() // closed already if the server has begun
	return err
}
