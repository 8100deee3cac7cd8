package webhook

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"dlqmanager/dlq"
)

const (
	signingSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	bearerToken   = "t0ken/with+symbols&more"
)

// counted records the calls of Metrics.
type counted struct {
	mu      sync.Mutex
	results map[string]int
}

func (c *counted) Count(target string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results[fmt.Sprint(target, " ", err)]++
}

func (*counted) Observe(context.Context, time.Duration) {}

// bench is a publisher with one endpoint, http:shop.
type bench struct {
	*testing.T
	publisher *Publisher
	endpoint  Endpoint
	metrics   *counted
	logs      *observer.ObservedLogs
}

var loopback = netip.MustParsePrefix("127.0.0.0/8")

func newBench(t *testing.T, url string, change func(*Options, *Endpoint)) *bench {
	t.Helper()
	b := &bench{T: t, metrics: &counted{results: map[string]int{}}}
	b.endpoint = Endpoint{URL: url, Timeout: 10 * time.Second, Concurrency: 4, SecretsFile: b.file(signingSecret), TokenFile: b.file(bearerToken)}
	o := Options{
		AllowedNetworks: []netip.Prefix{loopback}, UserAgent: "dlqmanager/test", Metrics: b.metrics,
		Original: func(_ context.Context, e *dlq.Envelope) (dlq.Record, error) { return e.Record, nil },
	}
	if change != nil {
		change(&o, &b.endpoint)
	}
	o.Endpoints = map[string]Endpoint{"shop": b.endpoint}
	core, logs := observer.New(zap.DebugLevel)
	b.logs = logs
	var err error
	b.publisher, err = New(o, zap.New(core))
	require.NoError(t, err)
	t.Cleanup(b.publisher.Close)
	return b
}

func (b *bench) file(content string) string {
	path := filepath.Join(b.TempDir(), "secret")
	require.NoError(b, os.WriteFile(path, []byte(content+"\n"), 0o600))
	return path
}

// serve starts an HTTP server on loopback.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func message(key, value string, headers ...dlq.Header) dlq.Envelope {
	e := dlq.Envelope{ID: dlq.NewID(), OriginalTopic: "orders", TargetTopic: "http:shop", RetryCount: 2, Token: dlq.NewID().String()}
	e.Record = dlq.Record{Value: []byte(value), Headers: headers}
	if key != "" {
		e.Record.Key = []byte(key)
	}
	return e
}

func (b *bench) publish(page ...dlq.Envelope) []dlq.Delivery {
	return b.publisher.Publish(b.Context(), page, dlq.OrderKey, nil)
}

func (b *bench) errorOf(e dlq.Envelope) error { return b.publish(e)[0].Err }

func TestARequestHasTheMessageAndItsSignature(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	b := newBench(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusNoContent)
	}), nil)
	e := message("k-1", `{"a": 1}`,
		dlq.Header{Key: "tenant", Value: []byte("jp")}, dlq.Header{Key: "tenant", Value: []byte("de")},
		dlq.Header{Key: "trace bytes", Value: []byte("x")}, dlq.Header{Key: "binary", Value: []byte{0, 1, '\n'}}, dlq.Header{Key: "empty"},
		dlq.Header{Key: "traceparent", Value: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")},
		dlq.Header{Key: "X-Correlation-ID", Value: []byte("c-1")}, dlq.Header{Key: "Host", Value: []byte("evil.example")})
	require.NoError(t, b.errorOf(e))

	require.Equal(t, http.MethodPost, got.Method)
	require.Equal(t, `{"a": 1}`, string(body))
	id := e.ID.String() + "-" + e.Token
	for name, want := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "dlqmanager/test", "Idempotency-Key": id, "Webhook-Id": id,
		"Dlq-Message-Id": e.ID.String(), "Dlq-Retry-Count": "2", "Dlq-Original-Topic": "orders", "Dlq-Key": "k-1",
		"Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "X-Correlation-Id": "c-1",
		"Dlq-Binary-Header-Binary": "AAEK", "Dlq-Header-Empty": "", "Dlq-Headers-Omitted": "1", "Dlq-Header-Host": "evil.example",
		"Authorization": "Bearer " + bearerToken, "Accept-Encoding": "", "Cookie": "",
	} {
		require.Equal(t, want, got.Header.Get(name), name)
	}
	require.Equal(t, []string{"jp", "de"}, got.Header.Values("Dlq-Header-Tenant"))
	require.NotEqual(t, "evil.example", got.Host)
	require.Equal(t, []string{signatureOf(t, signingSecret, got.Header, body)}, got.Header.Values("Webhook-Signature"))
	require.Equal(t, map[string]int{"http:shop <nil>": 1}, b.metrics.results)
}

func TestASignatureIsThatOfStandardWebhooks(t *testing.T) {
	t.Parallel()
	h := http.Header{"Webhook-Id": {"msg_p5jXN8AQM9LWM0D4loKWxJek"}, "Webhook-Timestamp": {"1614265330"}}
	require.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", signatureOf(t, signingSecret, h, []byte(`{"test": 2432232314}`)),
		"the example of the specification")
}

func TestRequestsHaveASignatureForEachSecretDuringARotation(t *testing.T) {
	t.Parallel()
	var got http.Header
	b := newBench(t, serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header }), nil)
	rotate := func(content string) {
		require.NoError(t, os.WriteFile(b.endpoint.SecretsFile, []byte(content), 0o600))
		require.NoError(t, b.errorOf(message("", "x")))
	}
	rotate("a raw secret\n" + signingSecret + "\n")
	require.Equal(t, signatureOf(t, "a raw secret", got, []byte("x"))+" "+signatureOf(t, signingSecret, got, []byte("x")), got.Get("Webhook-Signature"))
	for _, wrong := range []string{"", "whsec_%%%", "whsec_"} {
		rotate(wrong)
		require.Contains(t, got.Get("Webhook-Signature"), " ", "the earlier secrets")
	}
	rotate("a raw secret")
	require.Equal(t, signatureOf(t, "a raw secret", got, []byte("x")), got.Get("Webhook-Signature"))
	require.Equal(t, 1, b.logs.FilterMessageSnippet("cannot read the secrets").Len(), "once")
}

func TestAPipeInPlaceOfTheSecretsHoldsUpNoRequest(t *testing.T) {
	t.Parallel()
	b := newBench(t, serve(t, func(http.ResponseWriter, *http.Request) {}), nil)
	require.NoError(t, os.Remove(b.endpoint.SecretsFile))
	require.NoError(t, syscall.Mkfifo(b.endpoint.SecretsFile, 0o600))
	require.NoError(t, b.errorOf(message("", "x")))
	require.Equal(t, 1, b.logs.FilterMessageSnippet("using the earlier ones").Len())
}

func TestContentTypes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ header, value, want string }{
		{"", `{"a": 1}`, "application/json"}, {"", "\x00\x01", "application/octet-stream"}, {"", "", "application/octet-stream"},
		{"text/plain; charset=utf-8", "x", "text/plain; charset=utf-8"}, {"nonsense", `1`, "application/json"}, {"a/b\r\nX: y", `x`, "application/octet-stream"},
	} {
		r := dlq.Record{Value: []byte(test.value), Headers: []dlq.Header{{Key: "Content-Type", Value: []byte(test.header)}}}
		require.Equal(t, test.want, contentType(&r), test)
	}
}

func TestBinaryAndHugeKeysAndHeadersCannotBreakARequest(t *testing.T) {
	t.Parallel()
	var got http.Header
	b := newBench(t, serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header }), nil)
	for _, bad := range []string{"a\r\nX-Evil: 1", "a\nX-Evil: 1", "a\x00b", "schlüssel", " a", "a\x7f", "\xff\xfe"} {
		require.NoError(t, b.errorOf(message(bad, "v", dlq.Header{Key: "note", Value: []byte(bad)}, dlq.Header{Key: bad, Value: []byte("x")},
			dlq.Header{Key: "x-correlation-id", Value: []byte(bad)}, dlq.Header{Key: "content-type", Value: []byte(bad)})))
		require.Empty(t, got.Get("X-Evil"))
		require.Equal(t, base64.StdEncoding.EncodeToString([]byte(bad)), got.Get("Dlq-Binary-Key"))
		require.Equal(t, base64.StdEncoding.EncodeToString([]byte(bad)), got.Get("Dlq-Binary-Header-Note"))
		require.Equal(t, "1", got.Get("Dlq-Headers-Omitted"))
	}
	huge := make([]byte, 1<<20)
	many := []dlq.Header{{Key: "h", Value: huge}}
	for range 1000 {
		many = append(many, dlq.Header{Key: "x-correlation-id", Value: make([]byte, 100)})
	}
	require.NoError(t, b.errorOf(message(string(huge), "v", many...)))
	require.Empty(t, got.Values("Dlq-Binary-Key"))
	require.NotEqual(t, "0", got.Get("Dlq-Headers-Omitted"))
}

func TestATraceHeaderThatIsLeftOutIsCountedAndLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	var got http.Header
	b := newBench(t, serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header }), nil)
	var headers []dlq.Header
	for range 200 {
		headers = append(headers, dlq.Header{Key: "x-correlation-id", Value: bytes.Repeat([]byte("c"), 512)})
	}
	require.NoError(t, b.errorOf(message("k", "v", append(headers, dlq.Header{Key: "last", Value: []byte("x")})...)))
	require.NotEmpty(t, got.Get("Dlq-Headers-Omitted"))
	require.Equal(t, "x", got.Get("Dlq-Header-Last"))
}

func TestMessagesOfAKeyAreSentOneAfterTheOther(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	order := map[string][]string{}
	var now, most atomic.Int64
	started := make(chan struct{}, 100)
	b := newBench(t, serve(t, func(_ http.ResponseWriter, r *http.Request) {
		started <- struct{}{}
		for n := now.Add(1); ; {
			if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		defer now.Add(-1)
		for len(started) < 4 && most.Load() < 4 { // wait until requests for the four keys are in flight
			time.Sleep(time.Millisecond)
		}
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		order[r.Header.Get("Dlq-Key")] = append(order[r.Header.Get("Dlq-Key")], string(body))
	}), nil)
	var page []dlq.Envelope
	for _, value := range []string{"1", "2", "3"} {
		for _, key := range []string{"a", "b", "c", "d"} {
			page = append(page, message(key, value))
		}
	}
	for _, d := range b.publish(page...) {
		require.NoError(t, d.Err)
		require.Equal(t, dlq.Target{Topic: "http:shop", Partition: dlq.AnyPartition}, d.Target)
		require.Equal(t, &dlq.Acknowledgement{Topic: "http:shop", Partition: dlq.AnyPartition, Offset: -1}, d.Acknowledgement)
	}
	for _, key := range []string{"a", "b", "c", "d"} {
		require.Equal(t, []string{"1", "2", "3"}, order[key], key)
	}
	require.Equal(t, int64(4), most.Load(), "as many as the concurrency")
}

func TestAFailedMessageBlocksTheLaterOnesOfItsKey(t *testing.T) {
	t.Parallel()
	b := newBench(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) == "bad" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}), nil)
	page := []dlq.Envelope{message("a", "bad"), message("a", "x"), message("b", "x"), message("", "bad"), message("", "x")}
	deliveries := b.publish(page...)
	require.True(t, isRefusal(deliveries[0].Err, dlq.CategoryTransient), "%v", deliveries[0].Err)
	require.ErrorAs(t, deliveries[1].Err, new(*dlq.BlockedError))
	require.NoError(t, deliveries[2].Err)
	require.NoError(t, deliveries[4].Err)
	unordered := b.publisher.Publish(t.Context(), page, dlq.OrderNone, nil)
	require.NoError(t, unordered[1].Err)
}

func TestAClosedEndpointGetsNoRequests(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	b := newBench(t, serve(t, func(http.ResponseWriter, *http.Request) { requests.Add(1) }), nil)
	deliveries := b.publisher.Publish(t.Context(), []dlq.Envelope{message("a", "x"), message("a", "y")}, dlq.OrderKey,
		[]dlq.Target{{Topic: "http:shop", Partition: dlq.AnyPartition}})
	for _, d := range deliveries {
		require.ErrorIs(t, d.Err, dlq.ErrTargetClosed)
	}
	require.Zero(t, requests.Load())
	unknown := message("", "x")
	unknown.TargetTopic = "http:ledger"
	require.ErrorContains(t, b.errorOf(unknown), "http:ledger is not an endpoint of targets.endpoints")
}

func TestAnEndpointThatAsksForAPauseGetsNoRequests(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	b := newBench(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Retry-After", "7200")
		w.WriteHeader(http.StatusTooManyRequests)
	}), nil)
	for range 3 {
		var refused *dlq.DeliveryError
		require.ErrorAs(t, b.errorOf(message("", "x")), &refused)
		require.Equal(t, dlq.CategoryRateLimit, refused.Category)
		require.Equal(t, time.Hour, refused.RetryAfter.Round(time.Minute))
	}
	require.Equal(t, int32(1), requests.Load())
}

func TestAShorterPauseDoesNotEndALongerOne(t *testing.T) {
	t.Parallel()
	p := &page{target: &target{}}
	p.learn(&dlq.DeliveryError{Category: dlq.CategoryRateLimit, RetryAfter: time.Minute})
	p.learn(&dlq.DeliveryError{Category: dlq.CategoryRateLimit}) // the answer to an older request
	require.Greater(t, p.target.pause(), 30*time.Second)
}

func TestATopicThatIsNoTopicNameDoesNotCloseTheEndpoint(t *testing.T) {
	t.Parallel()
	b := newBench(t, serve(t, func(http.ResponseWriter, *http.Request) {}), nil)
	odd := message("", "x")
	odd.OriginalTopic = "or\nders" // another program has inserted this row
	require.NoError(t, b.errorOf(odd))
}

func TestAPageStopsWhenTheEndpointIsAway(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	b := newBench(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}), nil)
	page := make([]dlq.Envelope, 100)
	for i := range page {
		page[i] = message("", "x")
	}
	deliveries := b.publish(page...)
	require.LessOrEqual(t, requests.Load(), int32(4))
	require.True(t, isRefusal(deliveries[0].Err, dlq.CategoryTransient))
	require.ErrorIs(t, deliveries[99].Err, dlq.ErrTargetClosed)
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "an answer that is not read by a caller")
	}))
	server.Config.ConnState = connectionCounter(&connections)
	server.Start()
	t.Cleanup(server.Close)
	b := newBench(t, server.URL, nil)
	for range 5 {
		for _, d := range b.publish(message("", "1"), message("", "2"), message("", "3"), message("", "4"), message("", "5")) {
			require.NoError(t, d.Err)
		}
	}
	require.LessOrEqual(t, connections.Load(), int32(4))
}

func TestEndpointsMayUseHTTP2(t *testing.T) {
	t.Parallel()
	var connections, version atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { version.Store(int32(r.ProtoMajor)) }))
	server.EnableHTTP2 = true
	server.Config.ConnState = connectionCounter(&connections)
	server.StartTLS()
	t.Cleanup(server.Close)
	b := newBench(t, server.URL, func(o *Options, _ *Endpoint) {
		o.transport = func(t *http.Transport) {
			t.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		}
	})
	for range 3 {
		for _, d := range b.publish(message("", "1"), message("", "2"), message("", "3")) {
			require.NoError(t, d.Err)
		}
	}
	require.Equal(t, int32(2), version.Load())
	require.LessOrEqual(t, connections.Load(), int32(4))
}

func TestAPublishEndsInTime(t *testing.T) {
	t.Parallel()
	require.Less(t, maxDuration, dlq.ReviveAfter)
	require.Less(t, MaxTimeout, maxDuration)
	b := newBench(t, serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices a closed connection only after the body is read
		<-r.Context().Done()
	}),
		func(_ *Options, e *Endpoint) { e.Timeout, e.Concurrency = 50*time.Millisecond, 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Millisecond)
	defer cancel()
	deliveries := b.publisher.Publish(ctx, []dlq.Envelope{message("", "1"), message("", "2"), message("", "3"), message("", "4")}, dlq.OrderKey, nil)
	require.ErrorContains(t, deliveries[0].Err, "no answer within 50ms")
	require.ErrorIs(t, deliveries[3].Err, dlq.ErrTargetClosed)
}
