package registry_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/sr"

	"dlqmanager/dlq/masking"
)

func TestTagsAtUnusualPlacesOfAnAvroSchema(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string][]string{
		`{"type":"record","name":"A","fields":[{"name":"a","type":{"type":"record","name":"B","fields":[]}},{"name":"b","type":{"type":"B",` + piiTag + `}}]}`:                                                                        {"a", "b"},
		`{"type":"record","name":"A","fields":[{"name":"a","type":["null",{"type":"map","values":["null",{"type":"record","name":"B","fields":[{"name":"x","type":"int",` + piiTag + `}]}]}]}]}`:                                      {"a.*.x"},
		`{"type":"record","name":"A","fields":[{"name":"a","type":{"type":"enum","name":"E","symbols":["X"],` + piiTag + `}},{"name":"b","type":["null","E"]}]}`:                                                                      {"a", "b"},
		`{"type":"record","name":"A","fields":[{"name":"a","type":{"type":"fixed","name":"F","size":4,` + piiTag + `}},{"name":"b","type":{"type":"array","items":"F"}}]}`:                                                            {"a", "b.*"},
		`{"type":"record","name":"A","fields":[{"name":"a","type":{"type":"bytes","logicalType":"decimal","precision":4,"scale":2,` + piiTag + `}}]}`:                                                                                 {"a"},
		`{"type":"record","name":"A","fields":[{"name":"a","type":"string","confluent:tags":"PII"}]}`:                                                                                                                                 {"a"},
		`{"type":"record","name":"A","namespace":"x","fields":[{"name":"a","type":{"type":"record","name":"y.B","fields":[{"name":"c","type":{"type":"record","name":"C",` + piiTag + `,"fields":[]}}]}},{"name":"d","type":"y.C"}]}`: {"a.c", "d"},
	} {
		w := start(t)
		w.serve(map[string]string{"/schemas/ids/1": textOf("AVRO", schema)})
		paths, err := w.decoder.Tagged(t.Context(), wire(1, 0), []string{"PII"})
		texts := []string{}
		for _, p := range paths {
			texts = append(texts, p.String())
		}
		require.NoError(t, err, schema)
		assert.Equal(t, want, texts, schema)
	}
}

func TestTagsAtUnusualPlacesOfAProtobufSchema(t *testing.T) {
	t.Parallel()
	const head = `syntax = "proto3"; import "confluent/meta.proto"; import "google/protobuf/any.proto"; import "google/protobuf/struct.proto"; `
	const tag = ` [(confluent.field_meta).tags = "PII"]; `
	for schema, want := range map[string][]string{
		`message A { map<string, E> e = 1; repeated E r = 2; } enum E { option (confluent.enum_meta).tags = "PII"; X = 0; }`: {"e.*", "r.*"},
		`message A { E e = 1; } enum E { X = 0 [(confluent.enum_value_meta).tags = "PII"]; }`:                                {"e"},
		`option (confluent.file_meta).tags = "PII"; message A { string a = 1; }`:                                             {"*"},
		`message A { repeated string a = 1` + tag + ` google.protobuf.Struct s = 2` + tag + `}`:                              {"a", "s"},
		`message A { repeated B b = 1; message B { option (confluent.message_meta).tags = "PII"; } }`:                        {"b.*"},
	} {
		w := start(t)
		assert.Equal(t, want, w.tagged(first(w.register("orders-value", sr.TypeProtobuf, head+schema))), schema)
	}
	w := start(t)
	w.register("meta", sr.TypeProtobuf, head+`message B { string x = 1`+tag+`}`)
	id := w.register("orders-value", sr.TypeProtobuf, `syntax = "proto3"; import "b.proto"; message A { B b = 1; }`, sr.SchemaReference{Name: "b.proto", Subject: "meta", Version: 1})
	assert.Equal(t, []string{"b.x"}, w.tagged(first(id)))
}

func TestTagsAtUnusualPlacesOfAJSONSchema(t *testing.T) {
	t.Parallel()
	const pii = `{` + piiTag + `}`
	for schema, want := range map[string][]string{
		`{"properties":{"a":{"propertyNames":` + pii + `}}}`:                                                                                                            {"a"},
		`{"properties":{"a":{"contentSchema":{"properties":{"ssn":` + pii + `}}}}}`:                                                                                     {"a"},
		`{"properties":{"a":{"contentSchema":{"$ref":"#"}},"b":` + pii + `}}`:                                                                                           {"a", "b"},
		`{"properties":{"a":{"type":["null",{"properties":{"x":` + pii + `}}]},"b":{"extends":` + pii + `}}}`:                                                           {"a.x", "b"},
		`{"properties":{"a":{"confluent:tags":"PII"}}}`:                                                                                                                 {"a"},
		`{"properties":{"":` + pii + `}}`:                                                                                                                               {"*"},
		`{"properties":{"é*.":` + pii + `,"$ref":{"properties":{"definitions":` + pii + `}}}}`:                                                                          {`\$ref.definitions`, `é\*\.`},
		`{"properties":{"a":{"$id":"x","$ref":"#/definitions/T","definitions":{"T":{}}}},"definitions":{"T":` + pii + `}}`:                                              {"a"},
		`{"$id":"https://x.example/y/r.json","properties":{"a":{"$ref":"./a.json"}},"$defs":{"a":{"$id":"z/../a.json","confluent:tags":["PII"]},"b":{"$id":"a.json"}}}`: {"a"},
		`{"properties":{"a":{"$ref":"#/definitions/T%20t"}},"definitions":{"T t":` + pii + `}}`:                                                                         {"a"},
		`{"properties":{"a":{"$ref":"base.json#t"}},"$defs":{"a":{"$id":"base.json#t","confluent:tags":["PII"]}}}`:                                                      {"a"},
	} {
		w := start(t)
		w.serve(map[string]string{"/schemas/ids/1": textOf("JSON", schema)})
		paths, err := w.decoder.Tagged(t.Context(), wire(1, '{', '}'), []string{"PII"})
		texts := []string{}
		for _, p := range paths {
			texts = append(texts, p.String())
		}
		require.NoError(t, err, schema)
		assert.Equal(t, want, texts, schema)
	}
	w := start(t)
	w.register("tree", sr.TypeJSON, `{"$recursiveAnchor":true,"properties":{"children":{"items":{"$recursiveRef":"#"}}}}`)
	id := w.register("orders-value", sr.TypeJSON, `{"$recursiveAnchor":true,"$ref":"tree.json","properties":{"ssn":`+pii+`}}`, sr.SchemaReference{Name: "tree.json", Subject: "tree", Version: 1})
	assert.Equal(t, []string{"children.*.**.ssn", "ssn"}, w.tagged(wire(id, '{', '}')))
}

func TestWildcardsOfTheMetadataCrossDots(t *testing.T) {
	t.Parallel()
	const avro = `{"type":"record","name":"A","namespace":"shop","fields":[{"name":"ssn","type":"string"},{"name":"b","type":{"type":"record","name":"B","fields":[{"name":"ssn","type":"string"}]}}]}`
	const object = `{"properties":{"x.ssn":{},"b":{"properties":{"ssn":{}}}}}`
	for field, want := range map[string][2][]string{
		"shop.A.**.*": {{"b", "ssn"}, {"b", `x\.ssn`}},
		"$.x.ssn":     {{}, {"b.ssn", `x\.ssn`}},
		"$.b**":       {{}, {"b", `x\.ssn`}},
		"$.b**n":      {{}, {"b.ssn", `x\.ssn`}},
		"shop.?.s?n":  {{"b.ssn", "ssn"}, {"b.ssn", `x\.ssn`}},
	} {
		for i, text := range []string{avro, object} {
			w := start(t)
			format := []sr.SchemaType{sr.TypeAvro, sr.TypeJSON}[i]
			answer, err := json.Marshal(sr.Schema{Schema: text, Type: format, SchemaMetadata: &sr.SchemaMetadata{Tags: map[string][]string{field: {"PII"}}}})
			require.NoError(t, err)
			w.serve(map[string]string{"/schemas/ids/1": string(answer)})
			assert.Equal(t, want[i], w.tagged(wire(1, 0)), field)
		}
	}
}

func TestTagsThatNobodyWaitsForAskNothingOfTheRegistry(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.register("orders-value", sr.TypeJSON, `{`+piiTag+`}`)
	ended, end := context.WithCancel(t.Context())
	end()
	for other := range uint32(100) {
		_, err := w.decoder.Tagged(ended, wire(id+1+other, '{', '}'), []string{"PII"})
		require.Error(t, err)
	}
	require.Equal(t, []string{"*"}, w.tagged(wire(id, '{', '}')))
	_, err := w.decoder.Tagged(ended, wire(id, '{', '}'), []string{"PII"})
	require.NoError(t, err, "what is known needs no time")
	for len(w.requests) > 0 {
		require.Contains(t, <-w.requests, "/schemas/ids/"+strconv.Itoa(int(id)))
	}
}

// At the end of each path, the JSON of a value has a tagged text.
func TestPathsOfTagsHideTheValuesThatProtobufDecodesTo(t *testing.T) {
	t.Parallel()
	const tag = ` [(confluent.field_meta).tags = "PII"]; `
	const imports = ` import "confluent/meta.proto"; import "google/protobuf/any.proto"; import "google/protobuf/wrappers.proto"; import "google/protobuf/struct.proto"; `
	for _, c := range []struct {
		schema, value string
		metadata      map[string][]string
	}{
		{`syntax = "proto2";` + imports + `message A { optional group G = 1 { optional string s = 2` + tag + `} repeated group H = 3 { optional string s = 2` + tag + `} }`, `{"g":{"s":"SECRET"},"h":[{"s":"SECRET"}]}`, nil},
		{`edition = "2023";` + imports + `message B { string s = 1` + tag + `} message A { B b_c = 1 [features.message_encoding = DELIMITED]; }`, `{"bC":{"s":"SECRET"}}`, nil},
		{`syntax = "proto3";` + imports + `message A { string s = 1 [json_name = "a.b*\\c", (confluent.field_meta).tags = "PII"]; }`, `{"a.b*\\c":"SECRET"}`, nil},
		{`syntax = "proto3"; package p;` + imports + `message A { google.protobuf.Any any = 1; } message B { string s = 1` + tag + `}`,
			`{"any":{"@type":"x/google.protobuf.Any","value":{"@type":"x/p.B","s":"SECRET"}}}`, nil},
		{`syntax = "proto2"; package p;` + imports + `message A { extensions 100 to 200; } message X { extend A { repeated X x = 101; } optional string s = 1` + tag + `}`, `{"[p.X.x]":[{"s":"SECRET"}]}`, nil},
		{`syntax = "proto3";` + imports + `message A { google.protobuf.StringValue name = 1; google.protobuf.Any any = 2; map<string, google.protobuf.StringValue> m = 3; }`,
			`{"name":"SECRET","any":{"@type":"x/google.protobuf.StringValue","value":"SECRET"},"m":{"k":"SECRET"}}`, map[string][]string{"google.protobuf.StringValue.value": {"PII"}}},
		{`syntax = "proto3";` + imports + `message A { google.protobuf.Struct s = 1; }`, `{"s":{"a":{"b":["SECRET"]}}}`, map[string][]string{"**.string_value": {"PII"}}},
	} {
		w := start(t)
		answer, err := json.Marshal(sr.Schema{Schema: c.schema, Type: sr.TypeProtobuf, SchemaMetadata: &sr.SchemaMetadata{Tags: c.metadata}})
		require.NoError(t, err)
		w.serve(map[string]string{"/schemas/ids/1": string(answer)})
		_, err = w.decoder.Tagged(t.Context(), wire(1, 0), []string{"PII"})
		require.NoError(t, err, c.schema)
		index := byte(0)
		for _, before := range []string{"message B", "message X"} {
			if i := strings.Index(c.schema, before); i >= 0 && i < strings.Index(c.schema, "message A") {
				index = 2
			}
		}
		value, _, err := w.decoder.Encode(t.Context(), "orders", wire(1, 2, index), []byte(c.value))
		require.NoError(t, err, c.schema)
		decoded, err := w.decode(value)
		require.NoError(t, err)
		require.Contains(t, string(decoded.JSON), "SECRET")
		paths, err := w.decoder.Tagged(t.Context(), value, []string{"PII"})
		require.NoError(t, err)
		var targets []masking.Target
		for _, path := range paths {
			targets = append(targets, masking.Target{Path: path, As: masking.Mask})
		}
		var quotes masking.Quotes
		document, _ := masking.Read(decoded.JSON, targets, &quotes)
		shown, _ := document.Masked(nil, new(masking.Quotes))
		assert.NotContains(t, string(shown), "SECRET", "%s %v", c.schema, paths)
	}
}
