package api_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"dlqmanager/api"
)

// dial opens a connection with this source address, which must be on this machine.
func (w *world) dial(from string) net.Conn {
	w.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	connection, err := dialer.Dial("tcp", w.address)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = connection.Close() })
	require.NoError(w.t, connection.SetDeadline(time.Now().Add(20*time.Second)))
	return connection
}

// open opens a connection, sends one request on it, and leaves the connection open.
func (w *world) open(from string) net.Conn {
	w.t.Helper()
	connection := w.dial(from)
	_, err := io.WriteString(connection, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(w.t, err)
	require.Equal(w.t, http.StatusOK, readResponse(w.t, connection).status)
	return connection
}

// requireRefused opens a connection, and returns the reason why it is refused.
func (w *world) requireRefused(from string) string {
	w.t.Helper()
	got := readResponse(w.t, w.dial(from))
	message, _ := requireError(w.t, got, http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	for _, path := range []string{"/api/v1/dlq", "/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"} {
		request, err := http.NewRequest(http.MethodGet, "http://"+w.address+path, http.NoBody)
		require.NoError(w.t, err)
		requireConforms(w.t, request, got)
	}
	return message
}

// requireAnswers waits until the server answers on a new connection from 127.0.0.1.
func (w *world) requireAnswers() {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		answer, err := w.client.Get("http://" + w.address + "/healthz")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	}, 10*time.Second, 5*time.Millisecond)
}

func TestConnectionsBeyondTheLimitAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.MaxConnections = 2 })
	first := w.open("127.0.0.1")
	w.open("127.0.0.1")
	require.Equal(t, "too many connections are open; try again later", w.requireRefused("127.0.0.1"))
	require.NoError(t, testutil.GatherAndCompare(w.metrics, strings.NewReader(`
# HELP dlq_http_connections_refused_total Connections closed at once because too many were open.
# TYPE dlq_http_connections_refused_total counter
dlq_http_connections_refused_total 1
`), "dlq_http_connections_refused_total"))
	require.NoError(t, first.Close())
	w.requireAnswers()
}

// needTwoAddresses skips a test of two clients if the host has only one loopback address. Only Linux has more by default.
func needTwoAddresses(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		require.NotEqual(t, "true", os.Getenv("CI"), "127.0.0.2 is not a loopback address")
		t.Skip("SKIPPED: 127.0.0.2 is not a loopback address")
	}
	require.NoError(t, listener.Close())
}

func TestOneAddressCannotTakeAllConnections(t *testing.T) {
	t.Parallel()
	needTwoAddresses(t)
	w := start(t, func(o *api.Options) { o.MaxConnections, o.MaxConnectionsPerAddress = 3, 2 })
	first := w.open("127.0.0.1")
	w.open("127.0.0.1")
	require.Equal(t, "too many connections from this address are open; try again later", w.requireRefused("127.0.0.1"))
	w.open("127.0.0.2")
	require.Equal(t, "too many connections are open; try again later", w.requireRefused("127.0.0.2"))
	require.NoError(t, first.Close())
	w.requireAnswers()
}

func TestAFewAddressesCannotTakeTheConnectionsOfAllOthers(t *testing.T) {
	t.Parallel()
	needTwoAddresses(t)
	w := start(t, func(o *api.Options) { o.MaxConnections, o.MaxConnectionsPerAddress = 12, 6 })
	for range 5 {
		w.open("127.0.0.2")
	}
	for range 4 {
		w.open("127.0.0.3")
	}
	for _, from := range []string{"127.0.0.2", "127.0.0.3"} {
		require.Equal(t, "too many connections are open; try again later", w.requireRefused(from))
	}
	w.open("127.0.0.4")
	require.Equal(t, "too many connections are open; try again later", w.requireRefused("127.0.0.4"), "it has one")
	w.open("127.0.0.5")
	w.open("127.0.0.6")
	require.Equal(t, "too many connections are open; try again later", w.requireRefused("127.0.0.7"), "all are open")
}

func TestTheConnectionsOfAProxyAreThoseOfManyClients(t *testing.T) {
	t.Parallel()
	w := start(t, behindProxy, func(o *api.Options) { o.MaxConnectionsPerAddress = 2 })
	for range 5 {
		w.open("127.0.0.1")
	}
}
