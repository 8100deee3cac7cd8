package registry_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/sr"
	"google.golang.org/protobuf/encoding/protowire"

	"dlqmanager/dlq"
)

// message encodes fields: a string or bytes, a message, or a number.
func message(fields ...any) (encoded []byte) {
	for i := 0; i < len(fields); i += 2 {
		number := protowire.Number(fields[i].(int))
		switch value := fields[i+1].(type) {
		case string:
			encoded = protowire.AppendBytes(protowire.AppendTag(encoded, number, protowire.BytesType), []byte(value))
		case []byte:
			encoded = protowire.AppendBytes(protowire.AppendTag(encoded, number, protowire.BytesType), value)
		case int:
			encoded = protowire.AppendVarint(protowire.AppendTag(encoded, number, protowire.VarintType), uint64(value))
		}
	}
	return encoded
}

// first returns a value with the first message of a schema.
func first(id uint32, fields ...any) []byte {
	return append(wire(id, 0), message(fields...)...)
}

func schemaFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return string(text)
}

// orders registers the schemas of order events and of their metadata, and returns the id of the order
// events.
func orders(w *world) uint32 {
	w.t.Helper()
	w.register("metadata", sr.TypeProtobuf, schemaFile(w.t, "event_metadata.proto"))
	return w.register("orders-value", sr.TypeProtobuf, schemaFile(w.t, "order_events.proto"),
		sr.SchemaReference{Name: "k1s0/system/common/v1/event_metadata.proto", Subject: "metadata", Version: 1})
}

var orderMetadata = message(1, "e-1", 2, "order.created", 3, "order-server", 4, 1_771_583_400_000,
	5, "0af7651916cd43dd8448eb211c80319c", 6, "checkout-77", 7, 1)

func TestAnOrderEventIsDecodedWithItsMetadata(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := orders(w)
	value := first(id, 1, orderMetadata, 2, "o-1", 3, "c-1", 4, message(1, "p-1", 2, 2, 3, 1500), 4, message(1, "p-2", 2, 1), 5, 3000, 6, "JPY")
	decoded := w.requireRoundTrip(`{"metadata": {"eventId": "e-1", "eventType": "order.created", "source": "order-server",
		"timestamp": "1771583400000", "traceId": "0af7651916cd43dd8448eb211c80319c", "correlationId": "checkout-77", "schemaVersion": 1},
		"orderId": "o-1", "customerId": "c-1", "items": [{"productId": "p-1", "quantity": 2, "unitPrice": "1500"},
		{"productId": "p-2", "quantity": 1}], "totalAmount": "3000", "currency": "JPY"}`, value)
	require.Equal(t, dlq.Schema{Format: "PROTOBUF", ID: id, Subject: "orders-value", Version: 1,
		MessageType: "k1s0.event.service.order.v1.OrderCreatedEvent"}, decoded.Schema)
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", decoded.TraceID)
	require.Equal(t, "checkout-77", decoded.CorrelationID)
}

func TestMetadataIsFoundByItsTypeOrItsName(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.register("orders-value", sr.TypeProtobuf, `syntax = "proto3";
		message A { int32 other = 1; EventMetadata head = 2; }
		message B { Head metadata = 2; }
		message C { repeated EventMetadata metadata = 2; EventMetadata none = 3; }
		message EventMetadata { string trace_id = 1; string correlation_id = 2; }
		message Head { int32 trace_id = 1; string correlation_id = 2; }`)
	ids := message(1, "trace", 2, "correlation")
	for name, test := range map[string]struct {
		content            []byte
		trace, correlation string
	}{
		"a field of the type":         {append([]byte{2, 0}, message(2, ids)...), "trace", "correlation"},
		"a field of the name":         {append([]byte{2, 2}, message(2, message(1, 7, 2, "c"))...), "", "c"},
		"a list is none":              {append([]byte{2, 4}, message(2, ids)...), "", ""},
		"a text that cannot be an id": {append([]byte{2, 0}, message(2, message(1, "a\x00b", 2, string(make([]byte, 256))))...), "", ""},
		"metadata without ids":        {append([]byte{2, 0}, message(2, []byte{})...), "", ""},
	} {
		decoded, err := w.decode(wire(id, test.content...))
		require.NoError(t, err, name)
		require.Equal(t, []string{test.trace, test.correlation}, []string{decoded.TraceID, decoded.CorrelationID}, name)
	}
}

func TestMessageIndexesLeadToTheMessage(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.register("orders-value", sr.TypeProtobuf, `syntax = "proto3"; package p;
		message First { string first = 1; }
		message Outer {
			map<string, int32> counts = 1;
			message Inner { string inner = 1; message Deep { string deep = 1; } }
			message Other { string other = 1; }
		}`)
	text := message(1, "x")
	for name, test := range map[string]struct {
		indexes    []byte
		want, json string
	}{
		"0 for the first":        {[]byte{0}, "p.First", `{"first": "x"}`},
		"the first, written out": {[]byte{2, 0}, "p.First", `{"first": "x"}`},
		"nested":                 {[]byte{4, 2, 0}, "p.Outer.Inner", `{"inner": "x"}`},
		"the entry of a map is no message of the schema": {[]byte{4, 2, 2}, "p.Outer.Other", `{"other": "x"}`},
		"nested twice": {[]byte{6, 2, 0, 0}, "p.Outer.Inner.Deep", `{"deep": "x"}`},
	} {
		decoded, err := w.decode(wire(id, append(test.indexes, text...)...))
		require.NoError(t, err, name)
		require.JSONEq(t, test.json, string(decoded.JSON), name)
		require.Equal(t, test.want, decoded.Schema.MessageType, name)
	}
	for name, indexes := range map[string][]byte{
		"none": {}, "beyond the messages": {2, 4}, "beyond the nested": {4, 0, 0}, "negative": {2, 1}, "negative count": {1},
		"too many": {0xfe, 0xff, 0xff, 0xff, 0x0f}, "cut": {4, 2}, "cut in a varint": {0x80},
	} {
		_, err := w.decode(wire(id, indexes...))
		require.ErrorContains(t, err, "message ind", name)
	}
}

func TestImportsOfWellKnownTypesNeedNoReference(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.register("orders-value", sr.TypeProtobuf, `syntax = "proto3"; package p;
		import "google/protobuf/timestamp.proto"; import "google/protobuf/any.proto"; import "google/protobuf/wrappers.proto";
		import "google/protobuf/struct.proto"; import "confluent/meta.proto"; import "confluent/type/decimal.proto";
		message M {
			google.protobuf.Timestamp at = 1; google.protobuf.Any any = 2; google.protobuf.Int64Value wrapped = 3;
			google.protobuf.Value value = 4; confluent.type.Decimal price = 5 [(confluent.field_meta).doc = "in yen"];
			bytes raw = 6; Colour colour = 7; map<string, int64> counts = 8; oneof choice { string text = 9; int32 number = 10; }
			optional int32 zero = 11; double ratio = 12;
		}
		enum Colour { GREY = 0; RED = 1; }`)
	inner := message(1, "type.googleapis.com/p.M", 2, message(9, "inside"))
	w.requireRoundTrip(`{"at": "2026-02-20T10:30:00Z", "any": {"@type": "type.googleapis.com/p.M", "text": "inside"}, "wrapped": "5",
		"value": "v", "price": {"value": "BQ==", "scale": 2}, "raw": "AP8=", "colour": "RED", "counts": {"a": "1"}, "number": 0, "zero": 0}`,
		first(id, 1, message(1, 1_771_583_400), 2, inner, 3, message(1, 5), 4, message(3, "v"), 5, message(1, "\x05", 3, 2),
			6, []byte{0, 0xff}, 7, 1, 8, message(1, "a", 2, 1), 10, 0, 11, 0))
	w.requireRoundTrip(`{}`, first(id))
	w.requireRoundTrip(`{"colour": 9}`, first(id, 7, 9))
	w.requireError("which is not in its schema", first(id, 2, message(1, "type.googleapis.com/p.Unknown", 2, "x")))
	w.requireError("no JSON form", first(id, 1, message(1, 1<<60)))
}

func TestAValueIsDecodedWithTheVersionThatWroteIt(t *testing.T) {
	t.Parallel()
	w := start(t)
	require.NoError(t, w.fake.SetCompat("orders-value", sr.CompatNone))
	v1 := w.register("orders-value", sr.TypeProtobuf, `syntax = "proto3"; message Order { string id = 1; }`)
	v2 := w.register("orders-value", sr.TypeProtobuf, `syntax = "proto3"; message Order { int64 id = 1; string note = 2; }`)
	require.Equal(t, 1, w.requireJSON(`{"id": "o-1"}`, first(v1, 1, "o-1")).Schema.Version)
	require.Equal(t, 2, w.requireJSON(`{"id": "7", "note": "n"}`, first(v2, 1, 7, 2, "n")).Schema.Version)
	w.requireError("has no field of the message Order", first(v2, 1, "o-1"))
}
