package registry_test

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"go.uber.org/zap"

	"dlqmanager/registry"
)

// serve makes the fake registry answer with schemas that it would refuse to register. The keys of the map
// are paths of requests.
func (w *world) serve(schemas map[string]string) {
	w.fake.Intercept(func(response http.ResponseWriter, r *http.Request) bool {
		body, ok := schemas[r.URL.Path]
		if ok {
			_, _ = response.Write([]byte(body))
		}
		return ok
	})
}

// textOf returns the registry's answer with a schema.
func textOf(format, text string) string {
	return fmt.Sprintf(`{"schemaType": %q, "schema": %q}`, format, text)
}

func TestSchemasThatReferToThemselvesAreRefused(t *testing.T) {
	t.Parallel()
	w := start(t)
	const toItself = `{"schemaType": "PROTOBUF", "subject": "a", "version": 1, "schema": "syntax = \"proto3\"; import \"a.proto\";", "references": [{"name": "a.proto", "subject": "a", "version": 1}]}`
	const toNext = `{"schemaType": "AVRO", "schema": "\"int\"", "references": [{"name": "n", "subject": "b%d", "version": 1}]}`
	answers := map[string]string{
		"/schemas/ids/1": toItself, "/subjects/a/versions/1": toItself,
		"/schemas/ids/2":             fmt.Sprintf(toNext, 0),
		"/schemas/ids/3":             textOf("PROTOBUF", `syntax = "proto3"; import "schema of the registry.proto"; message M {}`),
		"/schemas/ids/4":             `{"schemaType": "AVRO", "schema": "\"int\"", "references": [` + strings.TrimSuffix(strings.Repeat(`{"name": "n", "subject": "c", "version": %d},`, 65), ",") + `]}`,
		"/schemas/ids/5":             `{"schema": "\"int\"", "references": [{"name": "n", "subject": "proto", "version": 1}]}`,
		"/subjects/proto/versions/1": textOf("PROTOBUF", `syntax = "proto3";`),
		"/schemas/ids/6":             `{"schema": "\"int\"", "references": [{"name": "n", "subject": "gone", "version": 1}]}`,
		"/schemas/ids/7":             `{"schema": "\"int\"", "references": [{"name": "../../x?y", "subject": "../../admin", "version": -1}]}`,
	}
	for i := range 20 {
		answers[fmt.Sprintf("/subjects/b%d/versions/1", i)] = fmt.Sprintf(toNext, i+1)
	}
	var versions []any
	for i := range 65 {
		versions = append(versions, i+1)
		answers[fmt.Sprintf("/subjects/c/versions/%d", i+1)] = textOf("AVRO", fmt.Sprintf(`{"type": "fixed", "name": "F%d", "size": 1}`, i))
	}
	answers["/schemas/ids/4"] = fmt.Sprintf(answers["/schemas/ids/4"], versions...)
	w.serve(answers)
	w.requireError(`refers to itself, by version 1 of "a"`, wire(1, 0))
	w.requireError("more than 16 levels deep", wire(2, 0))
	w.requireError("does not compile", wire(3, 0))
	w.requireError("more than 64 references", wire(4, 0))
	w.requireError(`version 1 of "proto", which has another format`, wire(5, 0))
	w.requireError(`version 1 of "gone", which the schema registry does not have`, wire(6, 0))
	w.requireError(`version -1 of "../../admin"`, wire(7, 0))
}

func TestUnusableSchemasAreRefusedInWords(t *testing.T) {
	t.Parallel()
	w := start(t)
	deep := strings.Repeat(`{"type":"array","items":`, 5000) + `"int"` + strings.Repeat("}", 5000)
	answers := map[string][2]string{
		"a schema of another type":    {textOf("AVRO", `syntax = "proto3"; message M {}`), "cannot be parsed"},
		"Protobuf that is Avro":       {textOf("PROTOBUF", `"int"`), "does not compile"},
		"no message":                  {textOf("PROTOBUF", `syntax = "proto3";`), "its schema has no such message"},
		"an unknown import":           {textOf("PROTOBUF", `syntax = "proto3"; import "x.proto"; message M {}`), "does not compile"},
		"an unknown format":           {textOf("XML", `<a/>`), "cannot be read"},
		"no JSON":                     {"<html>hello", "cannot be read"},
		"a huge schema":               {textOf("PROTOBUF", `syntax = "proto3"; /*`+strings.Repeat("x", 300_000)+`*/ message M {}`), "more than 262144 bytes"},
		"a huge answer":               {textOf("PROTOBUF", strings.Repeat("x", 2_000_000)), "more than 1048576 bytes"},
		"deep Avro":                   {textOf("AVRO", deep), "nested more than 100 levels"},
		"deep Protobuf":               {textOf("PROTOBUF", strings.Repeat("message M {", 5000)+strings.Repeat("}", 5000)), "nested more than 100 levels"},
		"deep options":                {textOf("PROTOBUF", `syntax = "proto3"; option (x) = `+strings.Repeat("{a:", 5000)+"1"+strings.Repeat("}", 5000)+";"), "nested more than 100 levels"},
		"an Avro type without a name": {textOf("AVRO", `{"type": "record", "fields": []}`), "cannot be parsed"},
		"an unknown Avro type":        {textOf("AVRO", `{"type": "record", "name": "R", "fields": [{"name": "a", "type": "Nothing"}]}`), "cannot be parsed"},
		"nothing":                     {textOf("PROTOBUF", ""), "its schema has no such message"},
	}
	served := map[string]string{}
	ids := map[string]uint32{}
	for name, answer := range answers {
		ids[name] = uint32(len(ids) + 1)
		served[fmt.Sprintf("/schemas/ids/%d", ids[name])] = answer[0]
	}
	w.serve(served)
	for name, answer := range answers {
		_, err := w.decode(wire(ids[name], 0))
		require.ErrorContains(t, err, answer[1], name)
		require.Less(t, len(err.Error()), 1000, name)
	}
}

func TestGooglesNamesInAnotherFormDoNoHarm(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.register("orders-value", sr.TypeProtobuf, `syntax = "proto3"; package google.protobuf;
		message Timestamp { string seconds = 1; } message Any { int32 type_url = 1; Any value = 2; } message Struct { string fields = 1; }
		message Value { int32 a = 1; } message FieldMask { int32 paths = 1; } message Empty { string a = 1; }`)
	for i, fields := range [][]any{{1, "x"}, {1, 7}, {1, "x"}, {1, 7}, {1, 7}} {
		w.requireError("", wire(id, append([]byte{2, byte(2 * i)}, message(fields...)...)...))
	}
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestSmallValuesThatWouldBeHugeAreRefused(t *testing.T) { //nolint:paralleltest // it measures memory
	w := start(t)
	name := strings.Repeat("n", 50_000)
	proto := w.register("proto", sr.TypeProtobuf, `syntax = "proto3"; import "google/protobuf/any.proto";
		message M { repeated M m = 1; repeated L l = 2; repeated E e = 3; google.protobuf.Any any = 4; repeated int32 numbers = 5; map<int32, M> map = 6; }
		message L { int32 `+name+` = 1; } enum E { ZERO = 0; A`+name+` = 1; }`)
	laughs := `{"type": "record", "name": "R0", "fields": []}`
	for i := range 30 {
		laughs = fmt.Sprintf(`{"type": "record", "name": "R%d", "fields": [{"name": "a", "type": %s}, {"name": "b", "type": "R%d"}]}`, i+1, laughs, i)
	}
	nested := func(depth int) (value []byte) {
		for range depth {
			value = message(1, value)
		}
		return value
	}
	inAny := func(depth int) (value []byte) {
		for range depth {
			value = message(4, message(1, "x/M", 2, value))
		}
		return value
	}
	long := w.register("long", sr.TypeAvro, `{"type": "array", "items": {"type": "record", "name": "R", "fields": [{"name": "`+name+`", "type": "null"}]}}`)
	nulls := w.register("nulls", sr.TypeAvro, `{"type": "array", "items": {"type": "array", "items": "null"}}`)
	list := w.register("list", sr.TypeAvro, `{"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}`)
	endless := w.register("endless", sr.TypeAvro, `{"type": "record", "name": "L", "fields": [{"name": "next", "type": ["L", "null"]}]}`)
	decimals := w.register("decimals", sr.TypeAvro, `{"type": "bytes", "logicalType": "decimal", "precision": 60000, "scale": 10}`)
	many := []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}
	for name, value := range map[string][]byte{
		"empty messages":         append(wire(proto, 0), bytes.Repeat([]byte{0x0a, 0}, 1<<20)...),
		"empty entries of a map": append(wire(proto, 0), bytes.Repeat([]byte{0x32, 0}, 1<<20)...),
		"long names":             append(wire(proto, 0), bytes.Repeat([]byte{0x12, 2, 0x08, 1}, 1<<18)...),
		"long names of an enum":  append(wire(proto, 0), message(3, bytes.Repeat([]byte{1}, 1<<20))...),
		"packed numbers":         append(wire(proto, 0), message(5, bytes.Repeat([]byte{1}, 4<<20-100))...),
		"deep messages":          append(wire(proto, 0), nested(5000)...),
		"messages in Any":        append(wire(proto, 0), inAny(2000)...),
		"a deep list":            append(wire(list), bytes.Repeat([]byte{2}, 1<<20)...),
		"an endless value":       append(wire(endless), bytes.Repeat([]byte{0}, 1<<20)...),
		"many nulls":             append(wire(nulls, 2), many...),
		"long names of Avro":     append(wire(long), many...),
		"the largest value":      append(wire(proto, 0), make([]byte, 8<<20)...),
	} {
		var err error
		used := allocated(func() { _, err = w.decode(value) })
		require.Error(t, err, name)
		require.Regexp(t, "too large|too deep|at most", err.Error(), name)
		require.Less(t, used, uint64(100<<20), name)
	}
	w.serve(map[string]string{"/schemas/ids/99": textOf("AVRO", laughs)})
	_, err := w.decode(wire(99))
	require.ErrorContains(t, err, "too large")
	digits := append([]byte{0x80, 0x80, 0x80, 0x02}, bytes.Repeat([]byte{0x55}, 1<<21)...)
	_, err = w.decode(wire(decimals, digits...))
	require.NoError(t, err, "base64")
}

func TestADescriptorBombIsBounded(t *testing.T) { //nolint:paralleltest // it measures memory
	w := start(t)
	var file strings.Builder
	file.WriteString(`syntax = "proto3"; message M0 {}`)
	for i := 0; file.Len() < 250_000; i++ {
		fmt.Fprintf(&file, "message M%d{M%d a=1;map<int32,M0>b=2;}", i+1, i)
	}
	var names strings.Builder
	names.WriteString(`{"type":"record","name":"R","fields":[`)
	for i := 0; names.Len() < 250_000; i++ {
		fmt.Fprintf(&names, `{"name":"f%d","type":"int"},`, i)
	}
	served := map[string]string{}
	const schemas = 8
	for i := range schemas {
		served[fmt.Sprintf("/schemas/ids/%d", 2*i+1)] = textOf("PROTOBUF", file.String())
		served[fmt.Sprintf("/schemas/ids/%d", 2*i+2)] = textOf("AVRO", strings.TrimSuffix(names.String(), ",")+"]}")
	}
	w.serve(served)
	for id := range uint32(2 * schemas) {
		_, _ = w.decode(wire(id+1, 0))
	}
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	require.Less(t, memory.HeapAlloc, uint64(150<<20))
	t.Logf("%d schemas use %d MiB", 2*schemas, memory.HeapAlloc>>20)
	runtime.KeepAlive(w.decoder)
}

func FuzzDecode(f *testing.F) {
	fake, decoder, ids := fuzzWorld(f)
	f.Cleanup(fake)
	for i := range ids {
		f.Add(i, []byte{0, 1, 2})
		f.Add(i, append([]byte{0}, message(1, "x", 2, message(1, "type.googleapis.com/p.M", 2, "x"), 3, 7)...))
	}
	f.Fuzz(func(t *testing.T, schema int, content []byte) {
		value := wire(ids[uint(schema)%uint(len(ids))], content...)
		decoded, err := decoder.Decode(t.Context(), "orders", false, value)
		if err != nil {
			require.NotContains(t, err.Error(), "the library", "no panic")
			return
		}
		require.NotEmpty(t, decoded.JSON)
		_, again, err := decoder.Encode(t.Context(), "orders", value, decoded.JSON)
		if err != nil {
			require.NotContains(t, err.Error(), "the library", "no panic")
			return
		}
		require.JSONEq(t, string(decoded.JSON), string(again.JSON))
	})
}

func FuzzSchema(f *testing.F) {
	for _, text := range []string{`"int"`, `syntax = "proto3"; message M { M m = 1; }`, `{"type": "array", "items": ["null", {"type": "enum", "name": "E", "symbols": ["A"]}]}`} {
		f.Add(text, []byte{0, 1, 2})
	}
	f.Fuzz(func(t *testing.T, text string, content []byte) {
		for _, format := range []sr.SchemaType{sr.TypeAvro, sr.TypeProtobuf} {
			if err := registry.DecodeWith(t.Context(), format, text, content); err != nil {
				require.NotContains(t, err.Error(), "the library", "no panic")
			}
		}
	})
}

// fuzzWorld has a decoder whose schemas are in its cache.
func fuzzWorld(f *testing.F) (closeAll func(), decoder *registry.Decoder, ids []uint32) {
	f.Helper()
	fake := srfake.New()
	decoder, err := registry.New(registry.Options{URLs: []string{fake.URL()}, Timeout: time.Minute}, zap.NewNop(), prometheus.NewRegistry())
	require.NoError(f, err)
	for i, schema := range []sr.Schema{
		{Type: sr.TypeProtobuf, Schema: `syntax = "proto3"; package p; import "google/protobuf/any.proto"; import "google/protobuf/timestamp.proto";
			import "google/protobuf/struct.proto"; import "google/protobuf/duration.proto"; import "google/protobuf/field_mask.proto";
			message M { string text = 1; google.protobuf.Any any = 2; google.protobuf.Timestamp at = 3; google.protobuf.Struct struct = 4;
			M m = 5; map<string, M> map = 6; repeated sint64 numbers = 7; E e = 8; google.protobuf.Duration duration = 9;
			google.protobuf.FieldMask mask = 10; bytes raw = 11; oneof choice { float f = 12; double d = 13; } }
			enum E { ZERO = 0; ONE = 1; }`},
		{Type: sr.TypeProtobuf, Schema: `syntax = "proto2"; message M { required string a = 1; optional group G = 2 { optional int32 x = 1; }
			extensions 100 to 200; } extend M { repeated M more = 100; }`},
		{Type: sr.TypeAvro, Schema: `{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "R", "string", "double", "bytes"]},
			{"name": "b", "type": {"type": "map", "values": {"type": "array", "items": ["null", "boolean"]}}},
			{"name": "c", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}},
			{"name": "d", "type": {"type": "long", "logicalType": "timestamp-micros"}},
			{"name": "e", "type": {"type": "int", "logicalType": "date"}}, {"name": "f", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}}]}`},
		{Type: sr.TypeJSON, Schema: `{}`},
	} {
		id, _, err := fake.RegisterSchema(fmt.Sprint("s", i), schema)
		require.NoError(f, err)
		ids = append(ids, uint32(id))
		_, _ = decoder.Decode(f.Context(), "orders", false, wire(uint32(id), 0))
	}
	return fake.Close, decoder, ids
}

// Padding would take memory and time in proportion to the size in the schema, and not to the length of the
// text.
func TestADecimalIsNotPaddedToAHugeFixed(t *testing.T) {
	t.Parallel()
	w := start(t)
	original := wire(w.register("orders-value", sr.TypeAvro,
		`{"type": "fixed", "name": "F", "size": 600000, "logicalType": "decimal", "precision": 9, "scale": 2}`))
	for _, edited := range []string{`"1.25"`, `"-1.25"`} {
		began := time.Now()
		w.refuses("must be Avro's fixed (decimal)", original, edited)
		require.Less(t, time.Since(began), time.Second)
	}
}
