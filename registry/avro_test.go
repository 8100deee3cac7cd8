package registry_test

import (
	"encoding/binary"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"

	"dlqmanager/dlq"
)

// avroValue encodes with the library. The test does not use the library's decoder.
func avroValue(t *testing.T, id uint32, schema string, value any) []byte {
	t.Helper()
	encoded, err := avro.MustParse(schema).Encode(value)
	require.NoError(t, err)
	return wire(id, encoded...)
}

func TestAnAvroValueBecomesPlainJSON(t *testing.T) {
	t.Parallel()
	w := start(t)
	const schema = `{"type": "record", "name": "Order", "namespace": "shop", "fields": [
		{"name": "metadata", "type": {"type": "record", "name": "EventMetadata", "fields": [
			{"name": "trace_id", "type": ["null", "string"]}, {"name": "correlation_id", "type": ["null", "string"]}]}},
		{"name": "id", "type": "string"}, {"name": "note", "type": ["null", "string"]}, {"name": "none", "type": ["null", "string"]},
		{"name": "count", "type": "int"}, {"name": "total", "type": "long"}, {"name": "paid", "type": "boolean"},
		{"name": "ratio", "type": "double"}, {"name": "share", "type": "float"}, {"name": "raw", "type": "bytes"},
		{"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}}, {"name": "again", "type": "Hash"},
		{"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]}},
		{"name": "tags", "type": {"type": "array", "items": "string"}}, {"name": "counts", "type": {"type": "map", "values": "int"}},
		{"name": "next", "type": ["null", "Order"]}]}`
	id := w.register("orders-value", sr.TypeAvro, schema)
	order := func(next any) map[string]any {
		return map[string]any{"metadata": map[string]any{"trace_id": "trace", "correlation_id": "correlation"},
			"id": "o-1 \"ü\u2028", "note": "n", "none": nil, "count": int32(-3), "total": int64(math.MaxInt64), "paid": true,
			"ratio": 0.25, "share": float32(1.5), "raw": []byte{0, 0xff}, "hash": []byte{1, 2}, "again": []byte{3, 4},
			"state": "DONE", "tags": []string{"a", "b"}, "counts": map[string]any{"x": int32(1)}, "next": next}
	}
	const plain = `"metadata": {"trace_id": "trace", "correlation_id": "correlation"}, "id": "o-1 \"ü\u2028", "note": "n", "none": null,
		"count": -3, "total": 9223372036854775807, "paid": true, "ratio": 0.25, "share": 1.5, "raw": "AP8=", "hash": "AQI=", "again": "AwQ=",
		"state": "DONE", "tags": ["a", "b"], "counts": {"x": 1}`
	decoded := w.requireRoundTrip(`{`+plain+`, "next": {`+plain+`, "next": null}}`, avroValue(t, id, schema, order(order(nil))))
	require.Equal(t, dlq.Schema{Format: "AVRO", ID: id, Subject: "orders-value", Version: 1, MessageType: "shop.Order"}, decoded.Schema)
	require.Equal(t, []string{"trace", "correlation"}, []string{decoded.TraceID, decoded.CorrelationID})
}

func TestLogicalTypesOfAvroAreReadable(t *testing.T) {
	t.Parallel()
	w := start(t)
	at := time.Date(2026, 2, 20, 10, 30, 0, 123_456_789, time.UTC)
	duration := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32([]byte{1, 0, 0, 0}, 2), 3)
	for name, test := range map[string]struct {
		schema string
		value  any
		want   string
	}{
		"date":                   {`{"type": "int", "logicalType": "date"}`, at, `"2026-02-20"`},
		"date before 1970":       {`{"type": "int", "logicalType": "date"}`, int32(-1), `"1969-12-31"`},
		"time-millis":            {`{"type": "int", "logicalType": "time-millis"}`, int32(37_800_123), `"10:30:00.123"`},
		"time-micros":            {`{"type": "long", "logicalType": "time-micros"}`, int64(37_800_123_456), `"10:30:00.123456"`},
		"time beyond a day":      {`{"type": "int", "logicalType": "time-millis"}`, int32(86_400_000), `86400000`},
		"timestamp-millis":       {`{"type": "long", "logicalType": "timestamp-millis"}`, at, `"2026-02-20T10:30:00.123Z"`},
		"timestamp-micros":       {`{"type": "long", "logicalType": "timestamp-micros"}`, at, `"2026-02-20T10:30:00.123456Z"`},
		"timestamp-nanos":        {`{"type": "long", "logicalType": "timestamp-nanos"}`, at, `"2026-02-20T10:30:00.123456789Z"`},
		"local-timestamp-millis": {`{"type": "long", "logicalType": "local-timestamp-millis"}`, at, `"2026-02-20T10:30:00.123"`},
		"timestamp beyond years": {`{"type": "long", "logicalType": "timestamp-millis"}`, int64(math.MaxInt64), `9223372036854775807`},
		"decimal":                {`{"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}`, big.NewRat(-5, 4), `"-1.25"`},
		"small decimal":          {`{"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3}`, big.NewRat(7, 1000), `"0.007"`},
		"decimal without scale":  {`{"type": "bytes", "logicalType": "decimal", "precision": 9}`, big.NewRat(12, 1), `"12"`},
		"fixed decimal":          {`{"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 1}`, big.NewRat(-1, 2), `"-0.5"`},
		"uuid":                   {`{"type": "string", "logicalType": "uuid"}`, "550e8400-e29b-41d4-a716-446655440000", `"550e8400-e29b-41d4-a716-446655440000"`},
		"uuid of bytes": {`{"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}`,
			[16]byte{0x55, 0x0e, 0x84, 0, 0xe2, 0x9b, 0x41, 0xd4, 0xa7, 0x16, 0x44, 0x66, 0x55, 0x44, 0, 0}, `"550e8400-e29b-41d4-a716-446655440000"`},
		"duration":        {`{"type": "fixed", "name": "L", "size": 12, "logicalType": "duration"}`, duration, `{"months": 1, "days": 2, "milliseconds": 3}`},
		"an unknown type": {`{"type": "long", "logicalType": "phase-of-the-moon"}`, int64(3), `3`},
		"NaN":             {`"double"`, math.NaN(), `"NaN"`},
		"infinity":        {`"float"`, float32(math.Inf(-1)), `"-Infinity"`},
	} {
		id := w.register(name, sr.TypeAvro, test.schema)
		value := avroValue(t, id, test.schema, test.value)
		decoded := w.requireRoundTrip(test.want, value)
		encoded, _, err := w.decoder.Encode(t.Context(), "orders", value, decoded.JSON)
		require.NoError(t, err, name)
		require.Equal(t, value, encoded, name)
	}
}

func TestReferencesOfAvroSchemasAreFollowed(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.register("country", sr.TypeAvro, `{"type": "enum", "name": "Country", "namespace": "geo", "symbols": ["JP", "DE"]}`)
	ofCountry := sr.SchemaReference{Name: "geo.Country", Subject: "country", Version: 1}
	w.register("address", sr.TypeAvro, `{"type": "record", "name": "Address", "namespace": "shop", "fields": [{"name": "country", "type": "geo.Country"}]}`, ofCountry)
	id := w.register("orders-value", sr.TypeAvro, `{"type": "record", "name": "Order", "namespace": "shop", "fields": [
		{"name": "to", "type": "Address"}, {"name": "from", "type": "shop.Address"}, {"name": "via", "type": "geo.Country"}]}`,
		sr.SchemaReference{Name: "shop.Address", Subject: "address", Version: 1}, ofCountry)
	w.requireRoundTrip(`{"to": {"country": "DE"}, "from": {"country": "JP"}, "via": "DE"}`, wire(id, 2, 0, 2))
}

func TestAvroValuesAreDecodedWithTheVersionThatWroteThem(t *testing.T) {
	t.Parallel()
	w := start(t)
	require.NoError(t, w.fake.SetCompat("orders-value", sr.CompatNone))
	v1 := w.register("orders-value", sr.TypeAvro, `{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}`)
	v2 := w.register("orders-value", sr.TypeAvro, `{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}`)
	require.Equal(t, 1, w.requireJSON(`{"id": "o-1"}`, wire(v1, append([]byte{6}, "o-1"...)...)).Schema.Version)
	require.Equal(t, 2, w.requireJSON(`{"id": 7}`, wire(v2, 14)).Schema.Version)
	w.requireError("3 bytes are left", wire(v2, append([]byte{6}, "o-1"...)...))
}

func TestBlocksOfAvroListsMayHaveTheirSize(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.register("orders-value", sr.TypeAvro, `{"type": "array", "items": "int"}`)
	w.requireRoundTrip(`[1, 2, 3]`, wire(id, 3, 4, 2, 4, 2, 6, 0)) // the count -2, 2 bytes; then the count 1
	w.requireRoundTrip(`[]`, wire(id, 0))
}

func TestAValueOfAJSONSchemaIsThatJSON(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.register("orders-value", sr.TypeJSON, `{"type": "object", "required": ["id"]}`)
	decoded := w.requireJSON(`{"metadata": {"traceId": "t", "correlationId": "c"}, "amount": 1.50}`,
		wire(id, []byte(`{"metadata": {"traceId": "t", "correlationId": "c"}, "amount": 1.50}`)...))
	require.Equal(t, dlq.Schema{Format: "JSON", ID: id, Subject: "orders-value", Version: 1}, decoded.Schema)
	require.Equal(t, []string{"t", "c"}, []string{decoded.TraceID, decoded.CorrelationID})
	w.requireError("it is not JSON", wire(id, []byte(`{"id": `)...))
}

func TestTheSubjectIsThatOfTheTopic(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, subject := range []string{"archive-value", "orders-key", "orders-value", "orders"} {
		w.register(subject, sr.TypeAvro, `"string"`)
	}
	id := w.register("zoo", sr.TypeAvro, `"string"`)
	for want, call := range map[string]struct {
		topic string
		isKey bool
	}{"orders-value": {"orders", false}, "orders-key": {"orders", true}, "archive-value": {"unknown", false}} {
		decoded, err := w.decoder.Decode(t.Context(), call.topic, call.isKey, wire(id, 2, 'x'))
		require.NoError(t, err)
		require.Equal(t, want, decoded.Schema.Subject)
	}
}
