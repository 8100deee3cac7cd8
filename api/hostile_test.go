package api_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"dlqmanager/api"
	"dlqmanager/dlq"
)

func TestTopicsThatKafkaWouldRefuseAreRefused(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, topic := range []string{
		"a%2Fb", "..%2F..%2Fetc%2Fpasswd", "%2e%2e", "%2e", "a%00b", "a%ff", "a%20b", "a'%20OR%201=1--", "*", "%C3%A9", "a+b", strings.Repeat("a", 250),
	} {
		for _, call := range [][2]string{{"GET", ""}, {"POST", "/retry-all"}} {
			_, got := w.send(call[0], "/api/v1/dlq/"+topic+call[1], nil)
			_, fields := requireError(t, got, http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
			require.Equal(t, []string{"topic"}, fields)
		}
	}
	require.Zero(t, w.retries.starts())
	for _, topic := range []string{strings.Repeat("a", 249), "messages", "A.b_c-9", "..."} {
		_, got := w.send(http.MethodGet, "/api/v1/dlq/"+topic, nil)
		require.Equal(t, http.StatusOK, got.status, topic)
	}
}

func TestPathsAreUsedAsSent(t *testing.T) {
	t.Parallel()
	w := start(t)
	for target, status := range map[string]int{
		"/api/v1/dlq/../../../healthz":       http.StatusNotFound,
		"/api/v1/../../healthz":              http.StatusNotFound,
		"/docs/../api/v1/dlq":                http.StatusNotFound,
		"/docs/../../../../../../etc/passwd": http.StatusNotFound,
		"/docs/..%2f..%2fetc%2fpasswd":       http.StatusNotFound,
		"//healthz":                          http.StatusNotFound,
		"/api/v1/dlq/%zz":                    http.StatusBadRequest,
		"/api/v1/dlq/messages/%zz":           http.StatusBadRequest,
		"/api/v1/dlq/a%2fb/retry-all":        http.StatusMethodNotAllowed, // the path has one topic, and only GET
	} {
		got := w.raw("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n")
		require.Equal(t, status, got.status, "%s: %s", target, got.body)
		require.NotContains(t, got.body, "root:")
	}
}

func TestRequestsThatAreNotHTTPGetTheDocumentedError(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, content := range []string{
		"hello\r\n\r\n", "GET\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
	} {
		got := w.raw(content)
		require.Equal(t, http.StatusBadRequest, got.status, content)
		message, _ := requireError(t, got, http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, "malformed HTTP request", message, content)
		require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
	}
}

// A proxy in front of the server may find another end of such a request.
func TestRequestsWhoseEndIsAmbiguousAreRefusedAndClosed(t *testing.T) {
	t.Parallel()
	w := start(t)
	const chunked = "\r\n\r\n0\r\n\r\n"
	for name, rest := range map[string]string{
		"two lengths":          "Content-Length: 5\r\nContent-Length: 2\r\n\r\n{}",
		"the same length":      "Content-Length: 2\r\ncontent-length: 2\r\n\r\n{}",
		"length and encoding":  "Content-Length: 5\r\nTransfer-Encoding: chunked" + chunked,
		"encoding and length":  "Transfer-Encoding: chunked\r\nContent-Length: 5" + chunked,
		"two encodings":        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked" + chunked,
		"chunked and identity": "Transfer-Encoding: chunked, identity" + chunked,
		"gzip":                 "Transfer-Encoding: gzip, chunked" + chunked,
		"identity":             "Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}",
		"vertical tab":         "Transfer-Encoding: \vchunked" + chunked,
		"Kelvin sign":          "Transfer-Encoding: chun\u212Aed" + chunked,
		"NUL":                  "X: a\x00b\r\n\r\n",
		"carriage return":      "X: a\rContent-Length: 2\r\n\r\n",
		"continued line":       "X: a\r\n Content-Length: 2\r\n\r\n",
		"continued encoding":   "Transfer-Encoding:\r\n\tchunked" + chunked,
		"blank before a colon": "Content-Length : 2\r\n\r\n{}",
		"tab before a colon":   "Transfer-Encoding\t: chunked" + chunked,
		"extended chunk":       "Transfer-Encoding: chunked\r\n\r\n2;\n\r\n{}\r\n0\r\n\r\n", // some proxies end lines at a line feed
	} {
		for _, method := range []string{http.MethodPost, "UNKNOWN"} {
			connection := w.dial("127.0.0.1")
			_, err := io.WriteString(connection, method+" "+retryAllPath+" HTTP/1.1\r\nHost: x\r\n"+rest)
			require.NoError(t, err)
			got := readResponse(t, connection)
			require.Equal(t, http.StatusBadRequest, got.status, "%s: %s", name, got.body)
			requireError(t, got, http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
			n, err := connection.Read(make([]byte, 1))
			require.Zero(t, n, name)
			require.ErrorIs(t, err, io.EOF, name)
		}
	}
	require.Zero(t, w.retries.starts())
	got := w.raw("POST " + retryAllPath + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked" + chunked)
	require.Less(t, got.status, 300, got.body)
}

// The errors of fasthttp quote the bytes that it could not read.
func TestTheLogQuotesNoRequestThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := start(t)
	const token, body = "zq7Token", "zq7Body"
	const line, secret = "POST " + retryAllPath + " HTTP/1.1\r\nHost: x\r\n", "Authorization: Bearer " + token + "\r\n"
	for name, content := range map[string]string{
		"headers end early":   line + secret,
		"blank in a name":     line + secret + "X Y: z\r\n\r\n",
		"no colon":            line + "Bearer " + token + "\r\n\r\n",
		"bad length":          line + secret + "Content-Length: two\r\n\r\n" + body,
		"two lengths":         line + secret + "Content-Length: 7\r\nContent-Length: 7\r\n\r\n" + body,
		"bad encoding":        line + secret + "Transfer-Encoding: " + token + "\r\n\r\n" + body,
		"bad chunk":           line + secret + "Transfer-Encoding: chunked\r\n\r\n" + body + "\r\n",
		"bad trailer":         line + secret + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + body + "\r\n\r\n",
		"bad value":           line + "Authorization: Bearer " + token + "\x00\r\n\r\n",
		"no version":          "POST /" + token + "\r\n" + secret + "\r\n" + body,
		"unknown version":     "POST / " + token + "\r\n" + secret + "\r\n",
		"body without a head": `{"card":"` + body + `"}` + "\r\n\r\n",
		"headers too large":   line + secret + "X: " + strings.Repeat("a", 20_000) + "\r\n\r\n",
	} {
		connection := w.dial("127.0.0.1")
		_, err := io.WriteString(connection, content)
		require.NoError(t, err)
		_ = connection.(*net.TCPConn).CloseWrite() // the server may have closed the connection already
		got := readResponse(t, connection)
		require.Contains(t, []int{http.StatusBadRequest, http.StatusRequestHeaderFieldsTooLarge}, got.status, name)
		entries := w.logs.TakeAll()
		require.Len(t, entries, 1, name)
		require.NotContains(t, fmt.Sprint(entries[0].ContextMap()), "zq7", name)
		require.NotContains(t, got.body, "zq7", name)
	}
}

func TestTooLargeRequestsAreRefused(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, body := w.send(http.MethodPost, retryAllPath, io.LimitReader(zeros{}, 1<<20+1))
	requireError(t, body, http.StatusRequestEntityTooLarge, "SYS_DLQ_PAYLOAD_TOO_LARGE")

	announced := w.raw("POST " + retryAllPath + " HTTP/1.1\r\nHost: x\r\nX-Request-Id: kept\r\nContent-Length: 1048577\r\n\r\n")
	requireError(t, announced, http.StatusRequestEntityTooLarge, "SYS_DLQ_PAYLOAD_TOO_LARGE")
	require.Equal(t, "kept", announced.header.Get("X-Request-Id"))

	long := w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1?error="+strings.Repeat("a", 9000))
	requireError(t, long, http.StatusRequestURITooLong, "SYS_DLQ_VALIDATION_ERROR")

	huge := w.raw("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Filler: " + strings.Repeat("a", 20_000) + "\r\n\r\n")
	requireError(t, huge, http.StatusRequestHeaderFieldsTooLarge, "SYS_DLQ_VALIDATION_ERROR")
	require.Zero(t, w.retries.starts())
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/healthz").status)
}

func TestTheLimitsOfTheURLAndTheHeadersAreThoseOfTheOptions(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.URILimit, o.HeaderLimit = 1<<10, 2<<10 })
	ask := func(path string, headers ...string) int {
		return w.raw("GET " + path + " HTTP/1.1\r\nHost: x\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n").status
	}
	url := func(length int) string { return "/healthz?" + strings.Repeat("a", length-len("/healthz?")) }
	filler := func(length int) string { return "X-Filler: " + strings.Repeat("a", length) }
	require.Equal(t, http.StatusOK, ask(url(1<<10), "X: y"))
	require.Equal(t, http.StatusRequestURITooLong, ask(url(1<<10+1), "X: y"))
	require.Equal(t, http.StatusOK, ask("/healthz", filler(1900)))
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, ask("/healthz", filler(2<<10)))
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, ask("/healthz", slices.Repeat([]string{filler(10)}, 100)...), "many headers")
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, ask(url(1<<10), filler(1100)), "the sum")
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, ask(url(3<<10), "X: y"))
}

// A trailer comes after the body. Its size is limited like the size of the headers.
func TestATrailerThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	w := start(t)
	got := w.raw("POST " + retryAllPath + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-Filler\r\n\r\n0\r\nX-Filler: " +
		strings.Repeat("a", 20_000) + "\r\n\r\n")
	requireError(t, got, http.StatusRequestHeaderFieldsTooLarge, "SYS_DLQ_VALIDATION_ERROR")
	require.Zero(t, w.retries.starts())
}

func TestManyParametersAreRefusedInOneShortAnswer(t *testing.T) {
	t.Parallel()
	w := start(t)
	var query strings.Builder
	for i := range 900 {
		fmt.Fprintf(&query, "p%d=1&", i)
	}
	got := w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1?"+query.String())
	requireError(t, got, http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
}

func TestRequestsThatArriveTooSlowlyAreEnded(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.ReadTimeout = 50 * time.Millisecond })
	connection, err := net.Dial("tcp", w.address)
	require.NoError(t, err)
	defer connection.Close()
	require.NoError(t, connection.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = io.WriteString(connection, "GET /healthz HTTP/1.1\r\nHost:")
	require.NoError(t, err)
	requireError(t, readResponse(t, connection), http.StatusRequestTimeout, "SYS_DLQ_VALIDATION_ERROR")
}

func TestWriteTimeoutDoesNotLimitTheHandler(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) {
		o.RetryWait, o.ReadTimeout, o.WriteTimeout, o.RequestTimeout = 900*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond
	})
	w.retries.hold()
	got := w.call(http.MethodPost, retryPath(w.add(1)[0]))
	require.Equal(t, http.StatusAccepted, got.status, got.body)
	require.Equal(t, "RETRYING", got.field(t, "status"))
}

// unkept makes plans without storing them.
type unkept struct{ Store }

func (unkept) CreatePlan(_ context.Context, plan dlq.JobPlan, ttl time.Duration) (dlq.JobPlan, error) {
	plan.ExpiresAt = plan.SnapshotAt.Add(ttl)
	return plan, nil
}

// previewOf is the preview of a job that would start now and has so many messages.
func previewOf(matched int64) dlq.JobPreview {
	return dlq.JobPreview{Scope: dlq.Scope{SnapshotAt: time.Now()}, Matched: matched}
}

// faulty panics or hangs.
type faulty struct{ unkept }

func (faulty) Message(context.Context, dlq.ID) (dlq.Message, error) { panic("secret in a panic") }

func (faulty) Weigh(context.Context, dlq.DetailQuery) ([]dlq.Weight, error) {
	return make([]dlq.Weight, 1), nil
}

func (faulty) Details(ctx context.Context, _ dlq.DetailQuery) ([]dlq.Detail, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("query: %w", ctx.Err())
}

func (faulty) PreviewJob(ctx context.Context, _ dlq.JobSpec) (dlq.JobPreview, error) {
	select {
	case <-ctx.Done():
		return dlq.JobPreview{}, fmt.Errorf("query: %w", ctx.Err())
	case <-time.After(100 * time.Millisecond):
		return previewOf(10_000_000), nil
	}
}

func TestAPlanMayTakeLongerThanOtherRequests(t *testing.T) {
	t.Parallel()
	const body = `{"kind":"retry","topic":"orders.dlq.v1"}`
	w := start(t, with(faulty{}), func(o *api.Options) { o.RequestTimeout = 10 * time.Millisecond })
	got := w.json(http.MethodPost, plansPath, body)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.EqualValues(t, 10_000_000, got.field(t, "matched"))
	w = start(t, with(faulty{}), func(o *api.Options) { o.PlanTimeout = 10 * time.Millisecond })
	message, _ := requireError(t, w.json(http.MethodPost, plansPath, body), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	require.Equal(t, "the plan took longer than 10ms (server.plan_timeout); narrow its filters, or raise the limit", message)
}

// A store may report that the database is unavailable when its deadline has passed.
func TestAPlanBeyondItsDeadlineNamesItsLimit(t *testing.T) {
	t.Parallel()
	w := start(t, with(late{}), func(o *api.Options) { o.PlanTimeout = 10 * time.Millisecond })
	message, _ := requireError(t, w.json(http.MethodPost, plansPath, `{"kind":"retry","topic":"orders.dlq.v1"}`),
		http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	require.Contains(t, message, "longer than 10ms (server.plan_timeout)")
}

func TestAPlanReportsAnUnavailableStore(t *testing.T) {
	t.Parallel()
	w := start(t, with(&fixed{err: fmt.Errorf("pool: %w", dlq.ErrUnavailable)}))
	message, _ := requireError(t, w.json(http.MethodPost, plansPath, `{"kind":"retry","topic":"orders.dlq.v1"}`),
		http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	require.Contains(t, message, "is unavailable")
}

// late loses the connection to the database at the deadline.
type late struct{ Store }

func (late) PreviewJob(ctx context.Context, _ dlq.JobSpec) (dlq.JobPreview, error) {
	<-ctx.Done()
	return dlq.JobPreview{}, fmt.Errorf("pool: %w: %w", dlq.ErrUnavailable, ctx.Err())
}

// stubborn ignores the end of its context. Its previews end when the gate opens.
type stubborn struct {
	unkept
	asked, gate chan struct{}
}

func (s stubborn) PreviewJob(context.Context, dlq.JobSpec) (dlq.JobPreview, error) {
	s.asked <- struct{}{}
	<-s.gate
	return previewOf(0), nil
}

func TestAPlanReportsThatOthersBlockedIt(t *testing.T) {
	t.Parallel()
	s := stubborn{asked: make(chan struct{}), gate: make(chan struct{})}
	w := start(t, with(s), func(o *api.Options) { o.PlanTimeout, o.MaxPlans = 10*time.Millisecond, 3 })
	answers := []<-chan response{w.plan(), w.plan(), w.plan()}
	for range answers {
		<-s.asked
	}
	message, _ := requireError(t, w.json(http.MethodPost, plansPath, `{"kind":"retry","topic":"orders.dlq.v1"}`),
		http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	require.Equal(t, "3 other plans were being made for 10ms (server.plan_timeout); try again later", message)
	close(s.gate)
	for _, answer := range answers {
		require.Equal(t, http.StatusOK, (<-answer).status)
	}
}

// gated returns a preview when its context ends or the gate opens.
type gated struct {
	unkept
	asked, gate chan struct{}
	underWay    *atomic.Int32
}

func newGated() gated {
	return gated{asked: make(chan struct{}), gate: make(chan struct{}), underWay: new(atomic.Int32)}
}

func (g gated) PreviewJob(ctx context.Context, _ dlq.JobSpec) (dlq.JobPreview, error) {
	n := g.underWay.Add(1)
	defer g.underWay.Add(-1)
	g.asked <- struct{}{}
	select {
	case <-ctx.Done():
	case <-g.gate:
	}
	return previewOf(int64(n)), ctx.Err()
}

// plan asks for a plan, and sends the answer to the channel.
func (w *world) plan(headers ...string) <-chan response {
	answer := make(chan response, 1)
	go func() {
		_, got := w.send(http.MethodPost, plansPath, strings.NewReader(`{"kind":"retry","topic":"orders.dlq.v1"}`),
			append(headers, "Content-Type: application/json")...)
		answer <- got
	}()
	return answer
}

func TestAtMostTwoPlansRunConcurrently(t *testing.T) {
	t.Parallel()
	g := newGated()
	w := start(t, with(g))
	var answers []<-chan response
	for range 6 {
		answers = append(answers, w.plan())
	}
	<-g.asked
	for range 5 {
		<-g.asked
		g.gate <- struct{}{}
	}
	g.gate <- struct{}{}
	for _, answer := range answers {
		got := <-answer
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.LessOrEqual(t, got.field(t, "matched"), 2.0)
	}
}

func TestAStopDoesNotWaitForAPlan(t *testing.T) {
	t.Parallel()
	g := newGated()
	w := start(t, with(g))
	answer := w.plan()
	<-g.asked
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(t, w.server.Shutdown(ctx))
	requireError(t, <-answer, http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
}

func TestAPanicIs500WithARequestIDAndNothingElse(t *testing.T) {
	t.Parallel()
	w := start(t, with(faulty{}))
	got := w.call(http.MethodPost, "/api/v1/dlq/messages/"+someID+"/retry", "X-Request-Id: panicked")
	require.Equal(t, http.StatusInternalServerError, got.status)
	require.Equal(t, `{"error":{"code":"SYS_DLQ_INTERNAL_ERROR","message":"internal error","request_id":"panicked","details":[]}}`, got.body)
	entries := w.logs.FilterMessage("panic in a handler").FilterField(zap.String("request_id", "panicked")).All()
	require.Len(t, entries, 1)
	require.Contains(t, entries[0].ContextMap()["stack"].(string), "hostile_test.go")
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/healthz").status, "the server still runs")
}

func TestAStoreThatHangsIs503(t *testing.T) {
	t.Parallel()
	w := start(t, with(faulty{}), func(o *api.Options) { o.RequestTimeout = 30 * time.Millisecond })
	message, _ := requireError(t, w.call(http.MethodGet, "/api/v1/dlq/messages/"+someID), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	require.Contains(t, message, "too long")
}

// keeper keeps its arguments after a call, as stores and workflow clients may do.
type keeper struct {
	Store
	mu    sync.Mutex
	asked []dlq.ListQuery
}

func (k *keeper) List(_ context.Context, q dlq.ListQuery) (dlq.Page, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = append(k.asked, q)
	return dlq.Page{TotalExact: true}, nil
}

func TestArgumentsOutliveTheRequest(t *testing.T) {
	t.Parallel()
	store := &keeper{}
	w := start(t, with(store))
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			for i := range 50 {
				name := fmt.Sprintf("topic-%d-%d", caller, i)
				_, got := w.send(http.MethodGet, "/api/v1/dlq/"+name+"?error="+name+"&key="+name, nil, "X-Request-Id: "+name)
				if got.status != http.StatusOK || got.header.Get("X-Request-Id") != name {
					t.Errorf("%s: %d %s", name, got.status, got.body)
				}
			}
		})
	}
	callers.Wait()
	seen := map[string]bool{}
	for _, q := range store.asked {
		require.Equal(t, q.Topic, q.ErrorContains)
		require.Equal(t, q.Topic, string(q.Key))
		seen[q.Topic] = true
	}
	require.Len(t, seen, 400)
	logged := map[any]bool{}
	for _, entry := range w.logs.FilterMessage("request").All() {
		logged[entry.ContextMap()["request_id"]] = true
	}
	require.Len(t, logged, 400)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
