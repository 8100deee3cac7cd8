package registry_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/sr"

	"dlqmanager/dlq"
	"dlqmanager/registry"
)

// encode encodes an edit of a value of the topic orders.
func (w *world) encode(original []byte, edited string) ([]byte, error) {
	w.t.Helper()
	value, decoded, err := w.decoder.Encode(w.t.Context(), "orders", original, json.RawMessage(edited))
	if err == nil {
		again, err := w.decode(value)
		require.NoError(w.t, err)
		require.Equal(w.t, again, decoded)
	}
	return value, err
}

// refuses requires that the encoding of an edit is refused.
func (w *world) refuses(why string, original []byte, edited string) {
	w.t.Helper()
	_, err := w.encode(original, edited)
	var refused *dlq.EncodeError
	require.ErrorAs(w.t, err, &refused, edited)
	require.Contains(w.t, refused.Reason, why, edited)
}

const avroOrder = `{"type": "record", "name": "Order", "namespace": "shop", "fields": [
	{"name": "id", "type": "string"}, {"name": "count", "type": "int"}, {"name": "rate", "type": "float"}, {"name": "raw", "type": "bytes"},
	{"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}}, {"name": "note", "type": ["null", "string"]},
	{"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]}},
	{"name": "tags", "type": {"type": "array", "items": "string"}}, {"name": "by/day", "type": {"type": "map", "values": "long"}},
	{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}, {"name": "paid", "type": "boolean"},
	{"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}}]}`

func TestAnEditedAvroValueMustFitItsSchema(t *testing.T) {
	t.Parallel()
	w := start(t)
	original := wire(w.register("orders-value", sr.TypeAvro, avroOrder))
	fields := map[string]string{"id": `"o-1"`, "count": `1`, "rate": `0.5`, "raw": `"AP8="`, "hash": `"AQI="`, "note": `null`, "state": `"NEW"`,
		"tags": `["a"]`, "by/day": `{"mo": 1}`, "at": `"2026-02-20T10:30:00.123Z"`, "paid": `true`, "amount": `"-12.5"`}
	order := func(name, value string) string {
		var text []string
		for field, content := range fields {
			if field == name {
				content = value
			}
			if content != "" {
				text = append(text, `"`+field+`": `+content)
			}
		}
		if fields[name] == "" && name != "" {
			text = append(text, `"`+name+`": `+value)
		}
		return "{" + strings.Join(text, ", ") + "}"
	}
	value, err := w.encode(original, order("", ""))
	require.NoError(t, err)
	w.requireRoundTrip(order("amount", `"-12.50"`), value)

	for _, test := range []struct{ field, value, why string }{
		{"id", `7`, "/id must be Avro's string"},
		{"id", ``, "/id is missing"},
		{"other", `1`, "/other is not in the schema"},
		{"count", `2147483648`, "/count must be Avro's int"},
		{"count", `1.5`, "/count must be Avro's int"},
		{"count", `"1"`, "/count must be Avro's int"},
		{"rate", `1e39`, "/rate must be Avro's float"},
		{"raw", `"é"`, "/raw must be Avro's bytes, as base64"},
		{"hash", `"AQ=="`, "/hash must be Avro's fixed of 2 bytes"},
		{"note", `5`, "/note must be Avro's string"},
		{"state", `"OLD"`, "/state must be Avro's enum NEW, DONE"},
		{"tags", `{"a": 1}`, "/tags must be Avro's array"},
		{"tags", `["a", null]`, "/tags/1 must be Avro's string"},
		{"by/day", `{"mo": "x"}`, "/by~1day/mo must be Avro's long"},
		{"at", `"2026-02-20T10:30:00.1234Z"`, "/at must be Avro's long (timestamp-millis)"},
		{"at", `"yesterday"`, "/at must be Avro's long"},
		{"paid", `"yes"`, "/paid must be Avro's boolean"},
		{"amount", `"1.234"`, "/amount must be Avro's bytes (decimal)"},
		{"amount", `""`, "/amount must be Avro's bytes (decimal)"},
		{"amount", `"-"`, "/amount must be Avro's bytes (decimal)"},
		{"amount", `"12345678.90"`, "/amount must be Avro's bytes (decimal)"},
		{"amount", `"0x10"`, "/amount must be Avro's bytes (decimal)"},
	} {
		w.refuses(test.why, original, order(test.field, test.value))
	}
	w.refuses("must be an object, since shop.Order is a record", original, `[]`)
	w.refuses(`the name "id" occurs twice`, original, `{"id": "a", "id": "b"}`)
	w.refuses("something follows", original, `{} {}`)
	w.refuses("something follows", original, `{}}`)
	w.refuses("not JSON", original, `{"id": "a"`)
	w.refuses("half a surrogate pair", original, order("id", `"\ud83d\u0041"`))
	w.refuses("half a surrogate pair", original, order("id", `"\\\uDC00"`))
	w.refuses("not JSON in UTF-8", original, order("id", "\"\xff\""))
	_, err = w.encode(original, order("id", `"\ud83d\uDE00 \ufffd \ud7ff \\ud800"`))
	require.NoError(t, err)
	w.refuses("nested more than 100 levels", original, strings.Repeat("[", 5000)+strings.Repeat("]", 5000))
	w.refuses("at most 4194304 are encoded", original, `"`+strings.Repeat("x", 4<<20)+`"`)
}

func TestABranchOfAUnionIsNotGuessed(t *testing.T) {
	t.Parallel()
	w := start(t)
	original := wire(w.register("orders-value", sr.TypeAvro, `["null", "int", "long", "string", "bytes",
		{"type": "record", "name": "A", "namespace": "n", "fields": [{"name": "x", "type": "int"}]},
		{"type": "record", "name": "B", "namespace": "n", "fields": [{"name": "x", "type": "int"}]}]`))
	for edited, want := range map[string][]byte{
		`null`: {0}, `5000000000`: {4, 128, 200, 175, 160, 37}, `{"int": 5}`: {2, 10}, `{"long": 5}`: {4, 10}, `"é"`: {6, 4, 0xc3, 0xa9},
		`{"bytes": "AP8="}`: {8, 4, 0, 255}, `{"n.B": {"x": 1}}`: {12, 2},
	} {
		value, err := w.encode(original, edited)
		require.NoError(t, err, edited)
		require.Equal(t, append(original[:5:5], want...), value, edited)
	}
	w.refuses(`fits several branches of its union: int, long; name one, as in {"int": …}`, original, `5`)
	w.refuses("several branches of its union: string, bytes", original, `"AP8="`)
	w.refuses("several branches of its union: n.A, n.B", original, `{"x": 1}`)
	w.refuses("must be Avro's int", original, `{"int": "x"}`)
	w.refuses("since n.B is a record", original, `true`)
}

// Each level has two branches, and each branch has all the levels below, so the branches double at each
// level.
func TestNestedUnionsTakeBoundedTime(t *testing.T) {
	t.Parallel()
	w := start(t)
	original := wire(w.register("orders-value", sr.TypeAvro, `{"type": "record", "name": "A", "fields": [{"name": "x", "type":
		["null", "A", {"type": "record", "name": "B", "fields": [{"name": "x", "type": ["null", "A", "B"]}]}]}]}`))
	w.refuses("too many nested unions", original, strings.Repeat(`{"x": `, 45)+"null"+strings.Repeat("}", 45))
}

func TestTheNewestVersionMustReadAnEditedValue(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		format            sr.SchemaType
		writer, newest    string
		original          []byte
		fits, doesNot, as string
	}{
		"Avro": {
			format: sr.TypeAvro, writer: `{"type": "record", "name": "O", "fields": [{"name": "a", "type": ["string", "int"]}]}`,
			newest: `{"type": "record", "name": "O", "fields": [{"name": "a", "type": ["string", "long"]}, {"name": "b", "type": "int", "default": 1}]}`,
			fits:   `{"a": "x"}`, doesNot: `{"a": true}`, as: "/a must be Avro's int",
		},
		"Avro with a new field": {
			format: sr.TypeAvro, writer: `{"type": "record", "name": "O", "fields": []}`,
			newest:  `{"type": "record", "name": "O", "fields": [{"name": "b", "type": "int"}]}`,
			doesNot: `{}`, as: "version 2 of orders-value does not read it: avro: incompatible at b",
		},
		"Protobuf": {
			format: sr.TypeProtobuf, writer: `syntax = "proto2"; message X {} message O { optional string a = 1; optional int32 gone = 2; }`,
			newest: `syntax = "proto2"; message O { optional string a = 1; } message X {}`, original: []byte{2, 2},
			fits: `{"a": "x"}`, doesNot: `{"a": "x", "gone": 3}`, as: "the value has field 2 of a message O, which is not in the schema",
		},
		"Protobuf with a required field": {
			format: sr.TypeProtobuf, writer: `syntax = "proto2"; message O { optional string a = 1; }`,
			newest: `syntax = "proto2"; message O { required string a = 1; }`, original: []byte{0},
			fits: `{"a": "x"}`, doesNot: `{}`, as: "required field O.a not set",
		},
		"JSON Schema": {
			format: sr.TypeJSON, writer: `{"type": "object"}`, newest: `{"type": "object", "required": ["a"]}`,
			fits: `{"a": 1}`, doesNot: `{}`, as: "version 2 of orders-value does not read it: it does not conform to its JSON Schema: at '': missing property 'a'",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t)
			require.NoError(t, w.fake.SetCompat("orders-value", sr.CompatNone))
			original := wire(w.register("orders-value", test.format, test.writer), test.original...)
			w.register("orders-value", test.format, test.newest)
			if test.fits != "" {
				_, err := w.encode(original, test.fits)
				require.NoError(t, err)
			}
			w.refuses(test.as, original, test.doesNot)
		})
	}
}

func TestAnEditedProtobufValueKeepsItsMessageIndexes(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.register("orders-value", sr.TypeProtobuf, `syntax = "proto3"; message A { message B { int64 n = 1; oneof c { string s = 2; bytes d = 3; } map<string, B> m = 4; } }`)
	original := append(wire(id, 4, 0, 0), message(1, 7)...)
	value, err := w.encode(original, `{"n": "8", "d": "AP8=", "m": {"k": {"s": "é"}}}`)
	require.NoError(t, err)
	require.Equal(t, append(wire(id, 4, 0, 0), message(1, 8, 4, message(1, "k", 2, message(2, "é")), 3, []byte{0, 255})...), value)
	w.refuses("unknown field \"x\"", original, `{"x": 1}`)
	w.refuses("duplicate field", original, `{"n": 1, "n": 2}`)
	w.refuses("is already set", original, `{"s": "a", "d": "AA=="}`)
	w.refuses("too many messages", original, `{"n": [1`+strings.Repeat(",1", 200_000)+`]}`)
	w.refuses("too many messages", original, `{"m": {`+strings.Repeat(`"k": {}, `, 200_000)+`"l": {}}}`)
	w.refuses("the original has field 9 of a message A.B", append(original, message(9, 1)...), `{"n": 1}`)
}

func TestAnEditedValueConformsToItsJSONSchemaAndItsReferences(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.register("customer", sr.TypeJSON, `{"$id": "https://shop.example/customer.json", "type": "object", "properties": {"name": {"type": "string"}}}`)
	id := w.register("orders-value", sr.TypeJSON, `{"$id": "https://shop.example/order.json", "type": "object",
		"properties": {"customer": {"$ref": "customer.json"}, "amount": {"type": "number", "minimum": 0.1}}, "additionalProperties": false}`,
		sr.SchemaReference{Name: "customer.json", Subject: "customer", Version: 1})
	original := wire(id, []byte(`{"amount": -1}`)...) // this value does not conform to the schema
	value, err := w.encode(original, `{"customer": {"name": "é"},  "amount": 1.50}`)
	require.NoError(t, err)
	require.Equal(t, wire(id, []byte(`{"customer": {"name": "é"},  "amount": 1.50}`)...), value, "as it was sent")
	w.refuses("at '/customer/name': got number, want string", original, `{"customer": {"name": 1}}`)
	w.refuses("at '/amount'", original, `{"amount": 0.05}`)
	w.refuses("additional properties 'x' not allowed", original, `{"x": 1}`)

	away := w.register("away-value", sr.TypeJSON, `{"$ref": "https://other.example/schema.json"}`)
	w.refuses("its JSON Schema cannot be used", wire(away), `{}`)
}

func TestNothingIsEncodedWhileTheRegistryIsAway(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *registry.Options) { o.Timeout = 100 * time.Millisecond })
	original := wire(w.register("orders-value", sr.TypeAvro, `"string"`), 2, 'x')
	w.requireJSON(`"x"`, original) // the schema is cached now
	w.fake.Close()
	_, err := w.encode(original, `"y"`)
	require.ErrorIs(t, err, dlq.ErrUnavailable)
}

func TestASubjectThatIsGoneHasNoNewestVersion(t *testing.T) {
	t.Parallel()
	w := start(t)
	original := wire(w.register("orders-value", sr.TypeAvro, `"string"`), 2, 'x')
	w.requireJSON(`"x"`, original)
	client, err := sr.NewClient(sr.URLs(w.fake.URL()))
	require.NoError(t, err)
	_, err = client.DeleteSubject(t.Context(), "orders-value", sr.SoftDelete)
	require.NoError(t, err)
	value, err := w.encode(original, `"y"`)
	require.NoError(t, err)
	require.Equal(t, append(original[:5:5], 2, 'y'), value)
}

func TestAMapThatAlsoNamesABranchIsNotGuessed(t *testing.T) {
	t.Parallel()
	w := start(t)
	original := wire(w.register("orders-value", sr.TypeAvro, `["int", "long", {"type": "map", "values": "long"}]`))
	w.refuses("fits several branches of its union: map, int", original, `{"int": 5}`)
	value, err := w.encode(original, `{"map": {"int": 5}}`)
	require.NoError(t, err)
	require.Equal(t, append(original[:5:5], 4, 2, 6, 'i', 'n', 't', 10, 0), value)
}

func TestATypeIsThatOfItsOwnNamespace(t *testing.T) {
	t.Parallel()
	w := start(t)
	original := wire(w.register("orders-value", sr.TypeAvro, `{"type": "record", "name": "R", "namespace": "n", "fields": [
		{"name": "a", "type": {"type": "record", "name": "B", "namespace": "", "fields": [{"name": "x", "type": "string"}]}},
		{"name": "b", "type": {"type": "record", "name": "B", "fields": [{"name": "y", "type": "int"}]}}, {"name": "c", "type": "B"}]}`))
	value, err := w.encode(original, `{"a": {"x": "q"}, "b": {"y": 1}, "c": {"y": 2}}`)
	require.NoError(t, err)
	require.Equal(t, append(original[:5:5], 2, 'q', 2, 4), value)
}

func TestAFloatIsRoundedOnce(t *testing.T) {
	t.Parallel()
	w := start(t)
	original := wire(w.register("orders-value", sr.TypeAvro, `"float"`))
	value, err := w.encode(original, `1.00000017881393432617187499`)
	require.NoError(t, err)
	require.Equal(t, append(original[:5:5], 1, 0, 0x80, 0x3f), value)
}

func TestFieldsInAnAnyAreNotLost(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.register("orders-value", sr.TypeProtobuf, `syntax = "proto3"; import "google/protobuf/any.proto";
		message A { google.protobuf.Any any = 1; } message B { int32 x = 1; }`)
	original := append(wire(id, 0), message(1, message(1, "type.googleapis.com/B", 2, message(1, 7, 9, 5)))...)
	w.refuses("the original has field 9 of a message B", original, `{"any": {"@type": "type.googleapis.com/B", "x": 8}}`)
}

// Each definition takes twice the work of the next definition.
func TestAJSONSchemaTakesBoundedTime(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ draft, root, step, leaf string }{
		"draft 7":          {"http://json-schema.org/draft-07/schema#", `"allOf": [{"$ref": "#/definitions/a0"}]`, `"allOf": [%[1]s, %[1]s]`, `"object"`},
		"draft 2020-12":    {"https://json-schema.org/draft/2020-12/schema", `"$ref": "#/definitions/a0"`, `"allOf": [%[1]s, %[1]s]`, `"object"`},
		"nothing conforms": {"http://json-schema.org/draft-07/schema#", `"not": {"$ref": "#/definitions/a0"}`, `"dependencies": {"x": %[1]s, "y": %[1]s}`, `"string"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t)
			var schema strings.Builder
			fmt.Fprintf(&schema, `{"$schema": %q, %s, "definitions": {`, test.draft, test.root)
			for i := range 60 {
				fmt.Fprintf(&schema, `"a%d": {%s}, `, i, fmt.Sprintf(test.step, fmt.Sprintf(`{"$ref": "#/definitions/a%d"}`, i+1)))
			}
			fmt.Fprintf(&schema, `"a60": {"type": %s}}}`, test.leaf)
			w.refuses("too many steps", wire(w.register("orders-value", sr.TypeJSON, schema.String())), `{"x": 1, "y": 1}`)
		})
	}
}

func TestFormatsAreChecked(t *testing.T) {
	t.Parallel()
	w := start(t)
	original := wire(w.register("orders-value", sr.TypeJSON, `{"properties": {"a": {"format": "date"}, "b": {"format": "regex"}}}`))
	_, err := w.encode(original, `{"a": "2026-02-20", "b": "x+"}`)
	require.NoError(t, err)
	w.refuses("at '/a'", original, `{"a": "x"}`)
	w.refuses("at '/b'", original, `{"b": "("}`)
}

func TestAnEnumIsCheckedBesideOtherKeywords(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, draft := range []string{"http://json-schema.org/draft-04/schema#", "https://json-schema.org/draft/2020-12/schema"} {
		original := wire(w.register("orders-value", sr.TypeJSON, `{"$schema": "`+draft+`", "allOf": [{"type": "string"}], "enum": ["x", 1, null], "not": {"enum": ["z"]}}`))
		_, err := w.encode(original, `"x"`)
		require.NoError(t, err)
		w.refuses("value must be one of 'x', 1, <nil>", original, `"y"`)
		w.refuses("want string", original, `1`)
	}
	original := wire(w.register("orders-value", sr.TypeJSON, `{"not": {"enum": ["z"]}}`))
	w.refuses("'not' failed", original, `"z"`)
}

func TestDefaultsOfAReaderDoNotGrowBeyondBounds(t *testing.T) {
	t.Parallel()
	w := start(t)
	original := wire(w.register("orders-value", sr.TypeAvro, `{"type": "array", "items": {"type": "record", "name": "R", "fields": []}}`))
	w.register("orders-value", sr.TypeAvro, `{"type": "array", "items": {"type": "record", "name": "R", "fields": [
		{"name": "a", "type": {"type": "array", "items": "int"}, "default": [1`+strings.Repeat(",1", 20_000)+`]}]}}`)
	_, err := w.encode(original, `[{}, {}]`)
	require.NoError(t, err)
	w.refuses("too large with the defaults of the schema", original, `[{}`+strings.Repeat(", {}", 2000)+`]`)
}

// A validation computes with exact fractions, so a number such as 1e999999 would get a million digits.
func TestNumbersAreBounded(t *testing.T) {
	t.Parallel()
	w := start(t)
	original := wire(w.register("orders-value", sr.TypeJSON, `{"items": {"minimum": 0}}`))
	for _, number := range []string{"1e999999", "1E-1000", "0.1e+0001000", "1e99999999999", strings.Repeat("1", 401)} {
		w.refuses("a number with more than 400 characters or an exponent beyond 999", original, "["+number+"]")
	}
	_, err := w.encode(original, `[1.7976931348623157e308, 5e-324, 1e0000999, `+strings.Repeat("1", 400)+`]`)
	require.NoError(t, err)
}

// Each schema and each value of this test is small, but a single step can be expensive.
func TestAStepOfAnEditIsBounded(t *testing.T) {
	t.Parallel()
	numbered := func(format string, n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(format, i))
		}
		return strings.Join(list, ",")
	}
	list := func(item string) string { return "[" + item + strings.Repeat(","+item, 100_000) + "]" }
	text := `"` + strings.Repeat("A", 1<<20) + `"`
	for name, test := range map[string]struct {
		format             sr.SchemaType
		schema, value, why string
	}{
		"an enum of JSON Schema":    {sr.TypeJSON, `{"items": {"enum": [` + numbered("%d.5", 20_000) + `]}}`, list("0"), "too many steps"},
		"required of JSON Schema":   {sr.TypeJSON, `{"items": {"required": [` + numbered(`"f%d"`, 20_000) + `]}}`, list("{}"), "too many steps"},
		"a pattern of JSON Schema":  {sr.TypeJSON, `{"pattern": "^` + strings.Repeat("[AB]?", 40_000) + `$"}`, text, "too many steps"},
		"an enum of Avro":           {sr.TypeAvro, `{"type": "array", "items": {"type": "enum", "name": "E", "symbols": [` + numbered(`"S%d"`, 20_000) + `]}}`, list(`"S19999"`), "too many values"},
		"a union of Avro's fixed":   {sr.TypeAvro, `[` + numbered(`{"type": "fixed", "name": "F%d", "size": 1}`, 5000) + `]`, text, "too many values"},
		"a long list of the errors": {sr.TypeJSON, `{"items": {"enum": [` + numbered("%d", 500) + `]}}`, "[" + numbered(`"%d"`, 2000) + "]", "value must be one of"},
		"a long name of an error":   {sr.TypeAvro, `{"type": "enum", "name": "E", "symbols": [` + numbered(`"S%d"`, 20_000) + `]}`, `"x"`, "must be Avro's enum S0, S1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t)
			_, err := w.encode(wire(w.register("orders-value", test.format, test.schema)), test.value)
			require.ErrorContains(t, err, test.why)
			require.Less(t, len(err.Error()), 2000)
		})
	}
}
