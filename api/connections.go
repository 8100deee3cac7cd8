package api

import (
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// tooManyConnections answers a connection before its request is read.
const tooManyConnections = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n" +
	"X-Content-Type-Options: nosniff\r\n" + headerRequestID + ": %[1]s\r\nRetry-After: " + retryAfterSeconds + "\r\nConnection: close\r\n\r\n" +
	`{"error":{"code":"` + codeUnavailable + `","message":"too many connections are open; try again later","request_id":"%[1]s","details":[]}}`

// limitedListener refuses connections while too many are open. A connection that waited
// instead would look like a server that hangs.
type limitedListener struct {
	net.Listener
	open    func() int32
	most    int
	refused prometheus.Counter
}

func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil || int(l.open()) < l.most {
			return connection, err
		}
		l.refused.Inc()
		refuse(connection)
	}
}

// refuse never waits for the client. A TLS client gets no answer, since that would need its
// part of the handshake.
func refuse(connection net.Conn) {
	if encrypted, ok := connection.(*tls.Conn); ok {
		_ = encrypted.NetConn().Close()
		return
	}
	_ = connection.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = fmt.Fprintf(connection, tooManyConnections, newRequestID())
	_ = connection.Close()
}
