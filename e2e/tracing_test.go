package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"dlqmanager/internal/kafkatest"
)

// spans is an OTLP receiver with the spans that it has received. It speaks the protocol that the programs
// use.
type spans struct {
	collector.UnimplementedTraceServiceServer
	mu       sync.Mutex
	received []*tracepb.Span
}

func (r *spans) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			r.received = append(r.received, scope.GetSpans()...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func (r *spans) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	exported := &collector.ExportTraceServiceRequest{}
	if proto.Unmarshal(body, exported) != nil || request.URL.Path != "/v1/traces" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	_, _ = r.Export(request.Context(), exported)
}

// trace returns the spans of a trace, each under its parent, in the order of their start.
func (r *spans) trace(id string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	byParent := map[string][]*tracepb.Span{}
	known := map[string]bool{}
	for _, span := range r.received {
		known[string(span.GetSpanId())] = true
	}
	for _, span := range r.received {
		if fmt.Sprintf("%x", span.GetTraceId()) != id {
			continue
		}
		parent := string(span.GetParentSpanId())
		if !known[parent] {
			parent = ""
		}
		byParent[parent] = append(byParent[parent], span)
	}
	var tree strings.Builder
	var write func(parent, indent string)
	write = func(parent, indent string) {
		children := byParent[parent]
		slices.SortFunc(children, func(a, b *tracepb.Span) int { return int(a.GetStartTimeUnixNano()) - int(b.GetStartTimeUnixNano()) })
		for _, span := range children {
			if strings.HasPrefix(span.GetName(), "prepare ") || span.GetName() == "pool.acquire" { // not in every trace
				continue
			}
			fmt.Fprintf(&tree, "%s%s\n", indent, span.GetName())
			write(string(span.GetSpanId()), indent+"  ")
		}
	}
	write("", "")
	return tree.String()
}

// named returns the spans with a name.
func (r *spans) named(name string) (found []*tracepb.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, span := range r.received {
		if span.GetName() == name {
			found = append(found, span)
		}
	}
	return found
}

func grpcReceiver(t *testing.T) (r *spans, env []string) {
	t.Helper()
	r = &spans{}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, r)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return r, []string{"DLQ_TRACING_ENDPOINT=http://" + listener.Addr().String(), "OTEL_BSP_SCHEDULE_DELAY=100"}
}

func httpReceiver(t *testing.T) (r *spans, env []string) {
	t.Helper()
	r = &spans{}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return r, []string{"DLQ_TRACING_ENDPOINT=" + server.URL, "DLQ_TRACING_PROTOCOL=http/protobuf", "OTEL_BSP_SCHEDULE_DELAY=100"}
}

func TestARetryIsOneTrace(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	received, env := grpcReceiver(t)
	s.env = append(s.env, env...)
	const original = "0af7651916cd43dd8448eb211c80319c"
	require.NoError(t, newClient(t, cluster).ProduceSync(t.Context(), &kgo.Record{Topic: s.dlqTopic, Key: []byte("k"), Headers: []kgo.RecordHeader{
		{Key: "original_topic", Value: []byte(s.topic)}, {Key: "error", Value: []byte("boom")},
		{Key: "traceparent", Value: []byte("00-" + original + "-b7ad6b7169203331-01")},
	}}).FirstErr())
	s.startWorker()
	s.startAPI()
	id, _ := s.decodedOf("k")["id"].(string)

	const ours = "4bf92f3577b34da6a3ce929d0e0e4736"
	_, answer := s.call(http.MethodPost, "/api/v1/dlq/messages/"+id+"/retry", "Prefer", "wait=30", "traceparent", "00-"+ours+"-00f067aa0ba902b7-01")
	require.Equal(t, "RESOLVED", answer["status"], answer)
	s.eventually("the spans are received", func() bool {
		return strings.Contains(received.trace(ours), "RunWorkflow") && strings.Contains(received.trace(ours), "POST /") && received.trace(original) != ""
	})
	require.Equal(t, strings.TrimPrefix(`
POST /api/v1/dlq/messages/:id/retry
  query SELECT
  batch start
    batch query INSERT
  StartWorkflow:RetryMessage
    RunWorkflow:RetryMessage
      StartActivity:MarkRetrying
        RunActivity:MarkRetrying
          query WITH
      StartActivity:Republish
        RunActivity:Republish
          query SELECT
          query SELECT
          publish
      StartActivity:Finalize
        RunActivity:Finalize
          batch start
            batch query INSERT
            batch query WITH
            batch query SELECT
`, "\n"), received.trace(ours))
	require.Equal(t, "republish\n", received.trace(original))
	require.Equal(t, original, fmt.Sprintf("%x", received.named("publish")[0].GetLinks()[0].GetTraceId()))
	published := received.named("republish")[0]
	require.Equal(t, ours, fmt.Sprintf("%x", published.GetLinks()[0].GetTraceId()))
	require.Contains(t, recordsOf(t, cluster, s.topic)[0].Headers,
		kgo.RecordHeader{Key: "traceparent", Value: fmt.Appendf(nil, "00-%s-%x-01", original, published.GetSpanId())})
}

func TestABulkRetryHasASpanForEachPageAndNotEachMessage(t *testing.T) {
	t.Parallel()
	const messages = 400
	const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	received, env := httpReceiver(t)
	s.env = append(s.env, env...)
	var records []*kgo.Record
	for i := range messages {
		records = append(records, &kgo.Record{Topic: s.dlqTopic, Key: fmt.Append(nil, i), Headers: []kgo.RecordHeader{
			{Key: "original_topic", Value: []byte(s.topic)}, {Key: "error", Value: []byte("boom")}, {Key: "traceparent", Value: []byte(traceparent)}}})
	}
	require.NoError(t, newClient(t, cluster).ProduceSync(t.Context(), records...).FirstErr())
	s.startWorker()
	s.startAPI()
	s.eventually("all are stored", func() bool { return s.pending() == messages })
	_, answer := s.call(http.MethodPost, "/api/v1/dlq/"+s.dlqTopic+"/retry-all", "Prefer", "wait=60")
	require.EqualValues(t, messages, answer["retried"], answer)
	s.eventually("the spans are received", func() bool { return len(received.named("RunWorkflow:RetryAll")) == 1 })

	sent := 0
	for _, page := range received.named("page") {
		require.NotEmpty(t, page.GetLinks())
		require.LessOrEqual(t, len(page.GetLinks()), 5, "a few of its messages")
		require.Equal(t, "0af7651916cd43dd8448eb211c80319c", fmt.Sprintf("%x", page.GetLinks()[0].GetTraceId()))
		sent += int(page.GetAttributes()[0].GetValue().GetIntValue())
	}
	require.Equal(t, messages, sent)
	require.Empty(t, received.named("publish"))
	for _, r := range recordsOf(t, cluster, s.topic) {
		require.Contains(t, r.Headers, kgo.RecordHeader{Key: "traceparent", Value: []byte(traceparent)}, "as it came")
	}
}

// The programs do not depend on the collector.
func TestTracesAreDroppedWhileTheCollectorIsAway(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	s.env = append(s.env, "DLQ_TRACING_ENDPOINT=http://127.0.0.1:1", "OTEL_BSP_SCHEDULE_DELAY=100")
	s.produceDeadLetters(cluster, 1)
	s.startWorker()
	api := s.startAPI()
	s.eventually("it is stored", func() bool { return s.pending() == 1 })
	_, answer := s.call(http.MethodPost, "/api/v1/dlq/messages/"+s.ids()[0]+"/retry", "Prefer", "wait=30")
	require.Equal(t, "RESOLVED", answer["status"], answer)
	s.eventually("the log says so", func() bool { return strings.Contains(api.log.tail(100_000), "spans were not exported") })
}
