package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"dlqmanager/internal/kafkatest"
)

// inWireFormat puts the id of a schema before content.
func inWireFormat(t *testing.T, id int, content []byte) []byte {
	t.Helper()
	prefix, err := new(sr.ConfluentHeader).AppendEncode(nil, id, nil)
	require.NoError(t, err)
	return append(prefix, content...)
}

// decodedOf waits for a message of the dead-letter topic whose key is k, and returns its detail.
func (s *system) decodedOf(k string) (detail map[string]any) {
	s.t.Helper()
	var id string
	s.eventually("it is there", func() bool {
		_, list := s.call(http.MethodGet, "/api/v1/dlq/"+s.dlqTopic+"?key="+k)
		messages, _ := list["messages"].([]any)
		if len(messages) == 1 {
			id, _ = messages[0].(map[string]any)["id"].(string)
		}
		return id != ""
	})
	_, detail = s.call(http.MethodGet, "/api/v1/dlq/messages/"+id)
	return detail
}

func TestValuesOfASchemaRegistryAreDecodedAndSentBackAsTheyWere(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	registry := srfake.New()
	t.Cleanup(registry.Close)
	s.env = append(s.env, "DLQ_SCHEMA_REGISTRY_URL="+registry.URL())

	read := func(file string) string {
		text, err := os.ReadFile("../registry/testdata/" + file)
		require.NoError(t, err)
		return string(text)
	}
	register := func(subject string, schema sr.Schema) int {
		id, _, err := registry.RegisterSchema(subject, schema)
		require.NoError(t, err)
		return id
	}
	register("metadata", sr.Schema{Type: sr.TypeProtobuf, Schema: read("event_metadata.proto")})
	order := register(s.topic+"-value", sr.Schema{Type: sr.TypeProtobuf, Schema: read("order_events.proto"),
		References: []sr.SchemaReference{{Name: "k1s0/system/common/v1/event_metadata.proto", Subject: "metadata", Version: 1}}})
	const payment = `{"type": "record", "name": "Payment", "fields": [{"name": "amount", "type": "int"}, {"name": "note", "type": ["null", "string"]}]}`
	paid := register("payments", sr.Schema{Schema: payment})
	content, err := avro.MustParse(payment).Encode(map[string]any{"amount": 7, "note": nil})
	require.NoError(t, err)

	values := map[string][]byte{
		// metadata {5: "trace-1", 6: "corr-1"}, order_id "o-1"
		"protobuf": inWireFormat(t, order, append([]byte{0, 0x0a, 17, 0x2a, 7}, "trace-1\x32\x06corr-1\x12\x03o-1"...)),
		"avro":     inWireFormat(t, paid, content),
		"unknown":  inWireFormat(t, 4711, content),
		"plain":    []byte(`{"amount": 8}`),
	}
	producer := newClient(t, cluster)
	deadLetter := func(key string, value []byte) {
		require.NoError(t, producer.ProduceSync(t.Context(), &kgo.Record{Topic: s.dlqTopic, Key: []byte(key), Value: value,
			Headers: []kgo.RecordHeader{{Key: "original_topic", Value: []byte(s.topic)}, {Key: "error", Value: []byte("boom")}}}).FirstErr())
	}
	for key, value := range values {
		deadLetter(key, value)
	}
	s.startWorker()
	s.startAPI()

	detail := s.decodedOf("protobuf")
	require.Equal(t, map[string]any{"metadata": map[string]any{"traceId": "trace-1", "correlationId": "corr-1"}, "orderId": "o-1"}, detail["payload"])
	require.Equal(t, map[string]any{"format": "PROTOBUF", "id": float64(order), "subject": s.topic + "-value", "version": 1.0,
		"message_type": "k1s0.event.service.order.v1.OrderCreatedEvent"}, detail["schema"])
	require.Equal(t, []any{"trace-1", "corr-1", nil}, []any{detail["trace_id"], detail["correlation_id"], detail["decode_error"]})
	require.Equal(t, map[string]any{"amount": 7.0, "note": nil}, s.decodedOf("avro")["payload"])
	require.Equal(t, map[string]any{"amount": 8.0}, s.decodedOf("plain")["payload"])
	unknown := s.decodedOf("unknown")
	require.Nil(t, unknown["payload"])
	require.Equal(t, "the schema registry has no schema with the id 4711", unknown["decode_error"])
	require.Equal(t, 3, s.rows("payload IS NOT NULL"), "the decoded values are stored")

	consumer := newClient(t, cluster, kgo.ConsumeTopics(s.topic))
	next := func() *kgo.Record { return nextRecord(t, consumer) }
	edit := func(key, value string) (int, map[string]any) {
		id, _ := s.decodedOf(key)["id"].(string)
		return s.send(http.MethodPost, "/api/v1/dlq/messages/"+id+"/retry", strings.NewReader(`{"value": `+value+`}`),
			"Prefer", "wait=30", "Content-Type", "application/json")
	}
	status, answer := edit("avro", `{"amount": "8"}`)
	require.Equal(t, http.StatusBadRequest, status, answer)
	require.Contains(t, fmt.Sprint(answer), "/amount must be Avro's int")
	for key, value := range values {
		id, _ := s.decodedOf(key)["id"].(string)
		_, retried := s.call(http.MethodPost, "/api/v1/dlq/messages/"+id+"/retry", "Prefer", "wait=30")
		require.Equal(t, "RESOLVED", retried["status"], key)
		record := next()
		require.Equal(t, []string{key, base64.StdEncoding.EncodeToString(value)}, []string{string(record.Key), base64.StdEncoding.EncodeToString(record.Value)})
	}

	// The newest version has one more field, which a consumer fills with the field's default.
	register("payments", sr.Schema{Schema: strings.Replace(payment, `"fields": [`, `"fields": [{"name": "currency", "type": "string", "default": "JPY"}, `, 1)})
	deadLetter("mended", values["avro"])
	status, answer = edit("mended", `{"amount": -9, "note": "mended"}`)
	require.Equal(t, http.StatusOK, status, answer)
	require.Equal(t, "RESOLVED", answer["status"], answer)
	var sent map[string]any
	record := next()
	require.Equal(t, inWireFormat(t, paid, nil), record.Value[:5])
	_, err = avro.MustParse(payment).Decode(record.Value[5:], &sent)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"amount": int32(-9), "note": "mended"}, sent)
}
