package registry_test

import (
	"context"
	"encoding/binary"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"go.uber.org/zap"

	"dlqmanager/dlq"
	"dlqmanager/registry"
)

// world is a decoder with a registry in memory.
type world struct {
	t        *testing.T
	fake     *srfake.Registry
	decoder  *registry.Decoder
	metrics  *prometheus.Registry
	requests chan string // the paths of the requests
}

func start(t *testing.T, change ...func(*registry.Options)) *world {
	t.Helper()
	w := &world{t: t, fake: srfake.New(), metrics: prometheus.NewRegistry(), requests: make(chan string, 10_000)}
	t.Cleanup(w.fake.Close)
	w.fake.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		w.requests <- r.URL.Path
		return false
	})
	options := registry.Options{URLs: []string{w.fake.URL()}, Timeout: 10 * time.Second, IngestTimeout: 10 * time.Second}
	for _, c := range change {
		c(&options)
	}
	var err error
	w.decoder, err = registry.New(options, zap.NewNop(), w.metrics)
	require.NoError(t, err)
	return w
}

// register returns the id of a schema.
func (w *world) register(subject string, format sr.SchemaType, text string, references ...sr.SchemaReference) uint32 {
	w.t.Helper()
	id, _, err := w.fake.RegisterSchema(subject, sr.Schema{Schema: text, Type: format, References: references})
	require.NoError(w.t, err)
	return uint32(id)
}

// decode decodes a value of the topic orders.
func (w *world) decode(value []byte) (dlq.Decoded, error) {
	w.t.Helper()
	return w.decoder.Decode(w.t.Context(), "orders", false, value)
}

// requireJSON decodes a value, and requires that the result is this JSON.
func (w *world) requireJSON(want string, value []byte) dlq.Decoded {
	w.t.Helper()
	decoded, err := w.decode(value)
	require.NoError(w.t, err)
	require.JSONEq(w.t, want, string(decoded.JSON))
	return decoded
}

// requireRoundTrip is requireJSON, and also requires that the JSON can be encoded again.
func (w *world) requireRoundTrip(want string, value []byte) dlq.Decoded {
	w.t.Helper()
	decoded := w.requireJSON(want, value)
	again, _, err := w.decoder.Encode(w.t.Context(), "orders", value, decoded.JSON)
	require.NoError(w.t, err, "%s", decoded.JSON)
	w.requireJSON(want, again)
	return decoded
}

func (w *world) requireError(want string, value []byte) {
	w.t.Helper()
	decoded, err := w.decode(value)
	require.ErrorContains(w.t, err, want)
	require.Nil(w.t, decoded.JSON)
	require.NotZero(w.t, decoded.Schema.ID)
}

// ingest decodes values as the ingest does.
func (w *world) ingest(values ...[]byte) []*dlq.Arrival {
	w.t.Helper()
	var arrivals []*dlq.Arrival
	for _, value := range values {
		a := &dlq.Arrival{DLQTopic: "orders.dlq", Record: dlq.Record{Value: value}}
		a.Origin.Topic = "orders"
		arrivals = append(arrivals, a)
	}
	w.decoder.DecodeArrivals(context.WithoutCancel(w.t.Context()), arrivals)
	return arrivals
}

// wire puts the id of a schema before content.
func wire(id uint32, content ...byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, id), content...)
}
