package api

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
)

// tooManyConnections is the answer to a refused connection. It is sent before a request is read.
const tooManyConnections = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n" +
	"X-Content-Type-Options: nosniff\r\n" + headerRequestID + ": %[1]s\r\nRetry-After: " + retryAfterSeconds + "\r\nConnection: close\r\n\r\n" +
	`{"error":{"code":"` + codeUnavailable + `","message":"%[2]s; try again later","request_id":"%[1]s","details":[]}}`

// connections counts all open connections, and the open connections of each address. most and mostOfAddress are the limits.
// Zero is no limit.
type connections struct {
	most, mostOfAddress int
	// isProxy tells which addresses are proxies, which send requests of many clients.
	isProxy func(netip.Addr) bool

	mu        sync.Mutex
	all       int
	ofAddress map[string]int
}

// follow is called by fasthttp for every connection that Accept returned.
func (c *connections) follow(connection net.Conn, state fasthttp.ConnState) {
	switch state {
	case fasthttp.StateNew:
		c.add(c.client(connection), 1)
	case fasthttp.StateClosed:
		c.add(c.client(connection), -1)
	default: // the connection stays open
	}
}

func (c *connections) add(client string, change int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all += change
	if c.ofAddress[client] += change; c.ofAddress[client] == 0 {
		delete(c.ofAddress, client)
	}
}

// client is the name of the client, from its address. It is empty for a proxy.
func (c *connections) client(connection net.Conn) string {
	remote, ok := connection.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return ""
	}
	address := remote.AddrPort().Addr().Unmap().WithZone("")
	if c.isProxy(address) {
		return ""
	}
	return addressBucket(address.String())
}

// isFull returns the reason if the client may open no further connection, or "".
func (c *connections) isFull(client string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.most > 0 && c.all >= c.most, c.most > 0 && c.all >= c.most-reserved(c.most) && c.ofAddress[client] > 0:
		return "too many connections are open"
	case c.mostOfAddress > 0 && client != "" && c.ofAddress[client] >= c.mostOfAddress:
		return "too many connections from this address are open"
	default:
		return ""
	}
}

// reserved is the number of connections that are kept for addresses without a connection. So a few addresses cannot lock out
// the probes of /healthz and /readyz.
func reserved(most int) int { return min(max(most/20, 8), most/4) }

// limitedListener refuses connections while too many are open. If a connection had to wait instead, the server would seem to
// hang.
type limitedListener struct {
	net.Listener
	connections *connections
	refused     prometheus.Counter
}

func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		full := l.connections.isFull(l.connections.client(connection))
		if full == "" {
			return connection, nil
		}
		l.refused.Inc()
		refuse(connection, full)
	}
}

// refuse never waits for the client. A TLS client gets no answer, since the server would need the handshake for an answer.
func refuse(connection net.Conn, reason string) {
	if encrypted, ok := connection.(*tls.Conn); ok {
		_ = encrypted.NetConn().Close()
		return
	}
	_ = connection.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = fmt.Fprintf(connection, tooManyConnections, newRequestID(), reason)
	_ = connection.Close()
}
