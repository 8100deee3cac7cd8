package api_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
)

const aTrace = "0af7651916cd43dd8448eb211c80319c"

// linked configures links to a tracing system and to a web interface of Kafka.
func linked(o *api.Options) {
	o.TraceLink, o.RecordLink = "https://tempo.example/trace/{trace_id}", "https://kafka.example/topics/{topic}?p={partition}&o={offset}"
}

// traced makes a dead letter with a trace and with the position of its original record.
func traced(a *dlq.Arrival) {
	a.Origin.Partition, a.Origin.Offset, a.TraceID = new(int32(3)), new(int64(0)), aTrace
	a.Source = dlq.Source{Partition: 0, Offset: 42}
	a.Record.Headers = append(a.Record.Headers, dlq.Header{Key: "traceparent", Value: []byte("00-" + aTrace + "-b7ad6b7169203331-01")})
}

type linkedMessage struct {
	TraceURL string               `json:"trace_url"`
	Origin   struct{ URL string } `json:"origin"`
	Source   struct{ URL string } `json:"source"`
	Target   struct{ URL string } `json:"target"`
}

func (w *world) linked(id dlq.ID, headers ...string) (m linkedMessage) {
	w.t.Helper()
	got := w.call(http.MethodGet, messagePath(id), headers...)
	require.Equal(w.t, http.StatusOK, got.status, got.body)
	require.NoError(w.t, json.Unmarshal([]byte(got.body), &m))
	return m
}

func TestAMessageLinksToItsTraceAndItsRecords(t *testing.T) {
	t.Parallel()
	w := start(t, linked)
	id := w.add(1, traced)[0]
	m := w.linked(id)
	require.Equal(t, "https://tempo.example/trace/"+aTrace, m.TraceURL)
	require.Equal(t, "https://kafka.example/topics/orders.v1?p=3&o=0", m.Origin.URL)
	require.Equal(t, "https://kafka.example/topics/orders.dlq.v1?p=0&o=42", m.Source.URL)
	require.Empty(t, m.Target.URL)

	plain := start(t)
	got := plain.call(http.MethodGet, messagePath(plain.add(1, traced)[0]))
	require.Equal(t, http.StatusOK, got.status)
	require.NotContains(t, got.body, "url")
}

func TestARetryLinksToTheRecordThatItWrote(t *testing.T) {
	t.Parallel()
	m := documented(t)
	m.Status, m.Resolution, m.RetryCount, m.Owner = dlq.StatusResolved, dlq.ResolutionDelivered, 1, dlq.Owner{WorkflowID: "w", Token: "r"}
	m.LastRetryAt, m.TargetPartition, m.TargetOffset = &m.CreatedAt, new(int32(2)), new(int64(7))
	const want = "https://kafka.example/topics/orders.events.v1?p=2&o=7"
	w := start(t, linked, with(&fixed{detail: dlq.Detail{Message: m}, chain: dlq.Chain{Hops: []dlq.Hop{{Message: m, Source: dlq.Source{Partition: 1, Offset: 42}}}}}))
	require.Equal(t, want, w.linked(m.ID).Target.URL)
	var chain struct {
		Hops []struct {
			Source   struct{ URL string }
			Attempts []struct{ Target struct{ URL string } }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(w.call(http.MethodGet, messagePath(m.ID)+"/chain").body), &chain))
	require.Equal(t, want, chain.Hops[0].Attempts[0].Target.URL)
	require.Equal(t, "https://kafka.example/topics/orders.events.dlq.v1?p=1&o=42", chain.Hops[0].Source.URL)
}

func TestAStrangerCannotChooseWhereALinkLeads(t *testing.T) {
	t.Parallel()
	w := start(t, linked)
	for _, evil := range []string{"../../admin", "a?p=1", "..", "x#", "a&o=9", "javascript:alert(1)"} {
		m := w.linked(w.add(1, traced, func(a *dlq.Arrival) { a.Origin.Topic, a.TraceID = evil, evil })[0])
		require.Empty(t, m.Origin.URL, evil)
		require.Empty(t, m.TraceURL, evil)
		require.NotEmpty(t, m.Source.URL, evil)
	}
}

func TestAHiddenTraceHasNoLink(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]dlq.MaskRule{
		"header": {Topics: []string{"*"}, Headers: []string{"traceparent"}, As: "mask"},
		"hashed": {Topics: []string{"*"}, Headers: []string{"traceparent"}, As: "hash"},
		"last4":  {Topics: []string{"*"}, Headers: []string{"trace*"}, As: "last4"},
		"value":  {Topics: []string{"*"}, Value: []string{"metadata.trace_id"}, As: "remove"},
	} {
		w := startWithTokens(t, linked, masked(t, rule))
		id := w.add(1, traced, func(a *dlq.Arrival) {
			if name == "value" {
				a.Record.Headers = nil
			}
			a.Record.Value = []byte(`{"metadata":{"trace_id":"` + aTrace + `"}}`)
			if name != "value" {
				a.Record.Value = []byte(`{}`)
			}
			a.Payload = a.Record.Value
		})[0]
		require.Empty(t, w.linked(id, bearer("admin")).TraceURL, name)
		require.NotContains(t, w.call(http.MethodGet, messagePath(id), bearer("admin")).body, aTrace[4:20], name)
		shown := w.json(http.MethodPost, messagePath(id)+"/unmask", `{"reason":"ticket 4711"}`, bearer("admin"))
		require.Equal(t, "https://tempo.example/trace/"+aTrace, shown.field(t, "trace_url"), name)
	}
}
