package api_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
)

// limited allows one request to each route. The next request would be allowed after the test.
func limited(o *api.Options) { o.RateLimit = 0.001 }

// behindProxy trusts the addresses of these tests as a proxy.
func behindProxy(o *api.Options) {
	o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}
}

// spend sends requests until a request is refused, and returns the refusal.
func (w *world) spend(method, path string, headers ...string) response {
	w.t.Helper()
	for range 20 {
		if _, got := w.send(method, path, nil, headers...); got.status == http.StatusTooManyRequests {
			return got
		}
	}
	w.t.Fatalf("%s %s is never refused", method, path)
	return response{}
}

func TestAClientThatSendsTooManyRequestsMustWait(t *testing.T) {
	t.Parallel()
	w := start(t, limited)
	got := w.spend(http.MethodGet, "/api/v1/dlq")
	message, _ := requireError(t, got, http.StatusTooManyRequests, "SYS_DLQ_TOO_MANY_REQUESTS")
	require.Equal(t, "too many requests; try again later", message)
	require.Contains(t, []string{"999", "1000"}, got.header.Get("Retry-After"))
	conforming := w.call(http.MethodGet, "/api/v1/dlq")
	require.Equal(t, http.StatusTooManyRequests, conforming.status)
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1").status, "another route")
}

func TestAClientThatPollsTooFastMayStillChangeSomething(t *testing.T) {
	t.Parallel()
	w := start(t, limited)
	w.spend(http.MethodGet, "/api/v1/dlq")
	got := w.call(http.MethodPost, "/api/v1/jobs/"+someID+"/cancel")
	require.Equal(t, http.StatusNotFound, got.status, got.body)
	w.spend(http.MethodPost, "/api/v1/jobs/"+someID+"/cancel")
}

func TestProbesAreNotLimited(t *testing.T) {
	t.Parallel()
	w := start(t, limited)
	w.spend(http.MethodGet, "/metrics")
	for range 20 {
		require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/healthz").status)
		require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/readyz").status)
	}
}

func TestEveryPrincipalHasItsOwnLimit(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t, limited)
	w.spend(http.MethodGet, "/api/v1/dlq", bearer("viewer"))
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/api/v1/dlq", bearer("operator")).status)
	requireError(t, w.spend(http.MethodGet, "/api/v1/dlq"), http.StatusTooManyRequests, "SYS_DLQ_TOO_MANY_REQUESTS")
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/api/v1/dlq", bearer("admin")).status, "though the address is refused")
}

func TestTheClientBehindATrustedProxyIsLimited(t *testing.T) {
	t.Parallel()
	const path = "/api/v1/dlq"
	w := start(t, limited, behindProxy)
	w.spend(http.MethodGet, path, "X-Forwarded-For: 192.0.2.1")
	for name, forwarded := range map[string][]string{
		"invented earlier hops":    {"X-Forwarded-For: 203.0.113.9, 192.0.2.1"},
		"another header before it": {"X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 192.0.2.1"},
		"more proxies":             {"X-Forwarded-For: 192.0.2.1, 10.1.2.3", "X-Forwarded-For: 10.3.4.5"},
		"a port":                   {"X-Forwarded-For: 192.0.2.1:4711"},
		"mapped to IPv6":           {"X-Forwarded-For: ::ffff:192.0.2.1"},
	} {
		_, got := w.send(http.MethodGet, path, nil, forwarded...)
		require.Equal(t, http.StatusTooManyRequests, got.status, name)
	}
	_, other := w.send(http.MethodGet, path, nil, "X-Forwarded-For: 192.0.2.1, 192.0.2.2")
	require.Equal(t, http.StatusOK, other.status, "another client")
	w.spend(http.MethodGet, path, "X-Forwarded-For: unknown")
	_, none := w.send(http.MethodGet, path, nil)
	require.Equal(t, http.StatusTooManyRequests, none.status, "an unreadable hop counts as the proxy itself")
}

func TestXForwardedForIsIgnoredFromOthers(t *testing.T) {
	t.Parallel()
	w := start(t, limited)
	for i := range 4 {
		_, got := w.send(http.MethodGet, "/api/v1/dlq", nil, "X-Forwarded-For: 192.0.2."+strconv.Itoa(i))
		require.Equal(t, i > 0, got.status == http.StatusTooManyRequests)
	}
}

func TestRefusedTokensAreCountedForTheClientBehindTheProxy(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t, behindProxy)
	w.spend(http.MethodGet, "/api/v1/me", bearer("nobody"), "X-Forwarded-For: 203.0.113.9, 192.0.2.1")
	_, other := w.send(http.MethodGet, "/api/v1/me", nil, bearer("nobody"), "X-Forwarded-For: 203.0.113.9, 192.0.2.2")
	require.Equal(t, http.StatusUnauthorized, other.status)
}

// scanning makes the lists that read many messages wait for the gate.
type scanning struct {
	Store
	asked, gate chan struct{}
}

func (s scanning) List(ctx context.Context, q dlq.ListQuery) (dlq.Page, error) {
	if q.ErrorContains == "" && q.Page < 100 {
		return s.Store.List(ctx, q)
	}
	s.asked <- struct{}{}
	select {
	case <-s.gate:
	case <-ctx.Done():
	}
	return dlq.Page{TotalExact: true}, ctx.Err()
}

// Groups makes the lists that rank all groups wait for the gate.
func (s scanning) Groups(ctx context.Context, q dlq.GroupQuery) (dlq.PageOf[dlq.Group], error) {
	if q.Sort == dlq.GroupsByFirstSeen {
		return s.Store.Groups(ctx, q)
	}
	_, err := s.List(ctx, dlq.ListQuery{Page: 100})
	return dlq.PageOf[dlq.Group]{}, err
}

func TestListsThatReadManyMessagesAreLimited(t *testing.T) {
	t.Parallel()
	const list = "/api/v1/dlq/orders.dlq.v1"
	s := scanning{newStore(t), make(chan struct{}), make(chan struct{})}
	w := start(t, with(s), func(o *api.Options) { o.ScanWait, o.MaxScans, o.AnswerMemory = 10*time.Millisecond, 7, 1<<30 })
	answers := make(chan response)
	for _, path := range []string{
		list + "?error=a", list + "?error=b&page_size=1", list + "?page=102&page_size=100", list + "?page=502&status=DEAD", list + "?error=d",
		groupsPath + "?sort=pending", groupsPath + "?sort=last_seen",
	} {
		go func() {
			_, got := w.send(http.MethodGet, path, nil)
			answers <- got
		}()
		<-s.asked
	}
	message, _ := requireError(t, w.call(http.MethodGet, list+"?error=c"), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	require.Contains(t, message, "7 other lists")
	requireError(t, w.call(http.MethodGet, groupsPath+"?sort=pending"), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, groupsPath).status)
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, list).status, "other lists are not limited")
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, list+"?page=51&page_size=200").status)
	close(s.gate)
	for range 7 {
		require.Equal(t, http.StatusOK, (<-answers).status)
	}
	go func() { <-s.asked }()
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, list+"?error=c").status)
}

// A body that arrives byte by byte must not keep its connection longer than the read timeout, even if no single byte is late.
func TestABodyThatDripsIsEnded(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.ReadTimeout = 200 * time.Millisecond })
	for name, head := range map[string]string{
		"body":    "POST " + retryAllPath + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n",
		"headers": "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ",
	} {
		connection, err := net.Dial("tcp", w.address)
		require.NoError(t, err)
		defer connection.Close()
		require.NoError(t, connection.SetDeadline(time.Now().Add(20*time.Second)))
		_, err = io.WriteString(connection, head)
		require.NoError(t, err)
		began := time.Now()
		go func() {
			drip := time.NewTicker(10 * time.Millisecond)
			defer drip.Stop()
			for range drip.C {
				if _, err := connection.Write([]byte("a")); err != nil {
					return
				}
			}
		}()
		got := readResponse(t, connection)
		require.Equal(t, http.StatusRequestTimeout, got.status, "%s: %s", name, got.body)
		require.Less(t, time.Since(began), 5*time.Second, name)
	}
	require.Zero(t, w.retries.starts())
}

// Slow clients must not delay the answers to other clients.
func TestManySlowClientsDoNotBlockAFastOne(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.MaxConnections = 500 })
	for range 200 {
		connection, err := net.Dial("tcp", w.address)
		require.NoError(t, err)
		defer connection.Close()
		_, err = io.WriteString(connection, "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")
		require.NoError(t, err)
	}
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/healthz").status)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(t, w.server.Shutdown(ctx), "nor a stop")
}
