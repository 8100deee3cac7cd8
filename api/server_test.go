package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"dlqmanager/api"
	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/kafka"
	"dlqmanager/store/postgres"
	"dlqmanager/telemetry"
)

// world is a server on a loopback port. It has its own database, and workflows in memory.
type world struct {
	t       testing.TB
	pool    *pgxpool.Pool
	store   *postgres.Store
	kept    arrivals // the same store, unless messages are in memory
	retries *retries
	server  *api.Server
	logs    *observer.ObservedLogs
	metrics *prometheus.Registry
	address string
	client  *http.Client
}

type arrivals interface {
	Ingest(ctx context.Context, arrivals []dlq.Arrival, advances []dlq.Advance) (stored []dlq.ID, err error)
}

// start runs a server until the test ends. change can replace any option.
func start(t testing.TB, change ...func(*api.Options)) *world {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	topics := newTopics(t)
	pool := dbtest.Another(t)
	w := &world{t: t, pool: pool, store: postgres.New(pool, topics), logs: logs, metrics: prometheus.NewRegistry()}
	w.kept, w.retries = w.store, newRetries(t, w.store)
	options := api.Options{
		Store: w.store, Database: w.store, Retries: w.retries, Topics: topics, Logger: zap.New(core),
		Registerer: w.metrics, Gatherer: w.metrics, Intake: &kafka.Intake{Topics: topics, MaxRetries: dlq.DefaultMaxRetries},
		LogLevel: logLevel(t), Profiles: telemetry.Profiles(), Hosts: []string{"x"}, Ready: func() map[string]error { return nil },
		Suspicion:         func([]dlq.Header) string { return "" },
		ComesOff:          func([]dlq.Header) func(dlq.Header) bool { return func(dlq.Header) bool { return false } },
		TemporalNamespace: "default", RetryWait: 10 * time.Second, BulkLanes: 4,
		RequestTimeout: 10 * time.Second, PlanTimeout: time.Minute, PlanTTL: time.Hour, MaxScans: 4, MaxPlans: 2, MaxExports: 4,
		ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		BodyLimit: 1 << 20, AnswerMemory: 256 << 20, HeaderLimit: 16 << 10, URILimit: 8 << 10,
	}
	for _, c := range change {
		c(&options)
	}
	var err error
	w.server, err = api.New(options)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w.address = listener.Addr().String()
	served := make(chan error, 1)
	go func() { served <- w.server.Serve(listener) }()
	w.client = &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}
	t.Cleanup(func() {
		w.retries.release()
		w.client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, w.server.Shutdown(ctx))
		require.NoError(t, <-served)
	})
	return w
}

func logLevel(t testing.TB) *telemetry.LogLevel {
	t.Helper()
	level, err := telemetry.NewLogLevel("info")
	require.NoError(t, err)
	return level
}

func newTopics(t testing.TB) *dlq.Topics {
	t.Helper()
	topics, err := dlq.NewTopics(dlq.DefaultTopicPatterns, nil)
	require.NoError(t, err)
	return topics
}

type response struct {
	status int
	header http.Header
	body   string
}

// call sends a request and checks its response against the specification.
func (w *world) call(method, path string, headers ...string) response {
	w.t.Helper()
	request, got := w.send(method, path, nil, headers...)
	requireConforms(w.t, request, got)
	return got
}

// json sends a request with a JSON body, and checks the response. If the answer is a success, the specification must allow the
// request too.
func (w *world) json(method, path, body string, headers ...string) response {
	w.t.Helper()
	request, got := w.send(method, path, strings.NewReader(body), append(headers, "Content-Type: application/json")...)
	requireConforms(w.t, request, got)
	if got.status < http.StatusBadRequest && body != "" {
		request.Body = io.NopCloser(strings.NewReader(body))
		require.Empty(w.t, requestViolations(w.t, request), body)
	}
	return got
}

// send sends a request that need not be in the specification. headers have the form "Name: value".
func (w *world) send(method, path string, body io.Reader, headers ...string) (*http.Request, response) {
	w.t.Helper()
	request, err := http.NewRequest(method, "http://"+w.address+path, body)
	require.NoError(w.t, err)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Add(name, value)
	}
	got, err := w.do(request)
	require.NoError(w.t, err)
	return request, got
}

func (w *world) do(request *http.Request) (response, error) {
	got, err := w.client.Do(request)
	if err != nil {
		return response{}, err
	}
	defer got.Body.Close()
	content, err := io.ReadAll(got.Body)
	return response{status: got.StatusCode, header: got.Header, body: string(content)}, err
}

// raw writes bytes to a new connection and reads one response.
func (w *world) raw(content string) response {
	w.t.Helper()
	connection, err := net.Dial("tcp", w.address)
	require.NoError(w.t, err)
	defer connection.Close()
	require.NoError(w.t, connection.SetDeadline(time.Now().Add(20*time.Second)))
	go func() { _, _ = io.Copy(connection, strings.NewReader(content)) }() // the server may close it before the end
	return readResponse(w.t, connection)
}

// decode reads the body into a map. It accepts only a JSON object.
func (r response) decode(t testing.TB) map[string]any {
	t.Helper()
	var object map[string]any
	decoder := json.NewDecoder(bytes.NewReader([]byte(r.body)))
	require.NoError(t, decoder.Decode(&object), r.body)
	return object
}

func (r response) field(t testing.TB, path ...string) any {
	t.Helper()
	var value any = r.decode(t)
	for _, name := range path {
		object, ok := value.(map[string]any)
		require.True(t, ok, "no object at %q in %s", name, r.body)
		value, ok = object[name]
		require.True(t, ok, "no field %q in %s", name, r.body)
	}
	return value
}

type errorObject struct {
	Error struct {
		Code      string `json:"code"`
		Message   string `json:"message"`
		RequestID string `json:"request_id"`
		Details   []struct {
			Field   string `json:"field"`
			Message string `json:"message"`
		} `json:"details"`
	} `json:"error"`
}

// requireError checks that a response is the documented error body. It returns the message, and the fields in the details.
func requireError(t testing.TB, got response, status int, code string) (message string, fields []string) {
	t.Helper()
	require.Equal(t, status, got.status, got.body)
	require.Equal(t, "application/json", got.header.Get("Content-Type"))
	var body errorObject
	decoder := json.NewDecoder(strings.NewReader(got.body))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&body), got.body)
	require.Equal(t, code, body.Error.Code)
	require.NotEmpty(t, body.Error.Message)
	require.NotNil(t, body.Error.Details, got.body)
	require.NotEmpty(t, body.Error.RequestID)
	require.Equal(t, got.header.Get("X-Request-Id"), body.Error.RequestID)
	require.Equal(t, status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests, got.header.Get("Retry-After") != "")
	for _, d := range body.Error.Details {
		require.NotEmpty(t, d.Message)
		fields = append(fields, d.Field)
	}
	return body.Error.Message, fields
}

// add stores n messages of orders.dlq.v1. It returns their ids in the order of arrival.
func (w *world) add(n int, change ...func(*dlq.Arrival)) []dlq.ID {
	w.t.Helper()
	ids := make([]dlq.ID, n)
	for i := range ids {
		arrival := dlq.Arrival{
			ID: dlq.NewID(), DLQTopic: "orders.dlq.v1",
			Source:  dlq.Source{TopicID: [16]byte{1}, Partition: 2, Offset: nextOffset()},
			Failure: dlq.Failure{Origin: dlq.Origin{Topic: "orders.v1", Family: "topic-name"}, ErrorMessage: "processing failed"},
			Record: dlq.Record{
				Key: []byte("order-1"), Value: []byte(`{"order_id":"123"}`),
				Timestamp: time.Date(2026, 2, 20, 10, 29, 59, 0, time.UTC),
			},
			Payload: json.RawMessage(`{"order_id":"123"}`), MaxRetries: dlq.DefaultMaxRetries,
		}
		for _, c := range change {
			c(&arrival)
		}
		stored, err := w.kept.Ingest(w.t.Context(), []dlq.Arrival{arrival}, nil)
		require.NoError(w.t, err)
		require.Len(w.t, stored, 1)
		ids[i] = arrival.ID
	}
	return ids
}

// status reads a message's status through the API.
func (w *world) status(id dlq.ID) string {
	w.t.Helper()
	got := w.call(http.MethodGet, "/api/v1/dlq/messages/"+id.String())
	require.Equal(w.t, http.StatusOK, got.status, got.body)
	return got.field(w.t, "status").(string)
}
