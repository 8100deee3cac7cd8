package registry_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/sr"
)

// tagged returns the paths to the values with the tag PII in data.
func (w *world) tagged(data []byte) []string {
	w.t.Helper()
	paths, err := w.decoder.Tagged(w.t.Context(), data, []string{"PII"})
	require.NoError(w.t, err)
	texts := []string{}
	for _, path := range paths {
		texts = append(texts, path.String())
	}
	return texts
}

func TestTheTagsOfAnAvroSchemaLeadToPaths(t *testing.T) {
	t.Parallel()
	const pii = `"confluent:tags":["PII"]`
	for schema, want := range map[string][]string{
		`{"type":"record","name":"A","fields":[{"name":"a","type":"string"}]}`:                                          {},
		`{"type":"record","name":"A","fields":[{"name":"a","type":"string","confluent:tags":["OTHER"]}]}`:               {},
		`{"type":"record","name":"A","fields":[{"name":"a","type":"string",` + pii + `},{"name":"b","type":"string"}]}`: {"a"},
		`{"type":"record","name":"A","fields":[{"name":"a","type":{"type":"string",` + pii + `}}]}`:                     {"a"},
		`{"type":"record","name":"A","fields":[{"name":"a","type":["null","string"],` + pii + `}]}`:                     {"a"},
		`{"type":"record","name":"A",` + pii + `,"fields":[{"name":"a","type":"string"}]}`:                              {"*"},
		`{"type":"array","items":{"type":"record","name":"B","fields":[{"name":"b","type":"string",` + pii + `}]}}`:     {"*.b"},
		`{"type":"map","values":{"type":"string",` + pii + `}}`:                                                         {"*"},
		`{"type":"record","name":"A","fields":[{"name":"a","type":["null",{"type":"record","name":"B",` + pii + `,"fields":[]}]},
			{"name":"c","type":{"type":"array","items":"B"}}]}`: {"a", "c.*"},
		`{"type":"record","name":"Node","fields":[{"name":"next","type":["null","Node"]},{"name":"p","type":
			{"type":"record","name":"P","fields":[{"name":"ssn","type":"string",` + pii + `}]}}]}`: {"next.**.ssn", "p.ssn"},
		`{"type":"record","name":"A","fields":[{"name":"a.b","type":"string",` + pii + `}]}`: {`a\.b`},
	} {
		w := start(t)
		require.Equal(t, want, w.tagged(wire(w.register("orders-value", sr.TypeAvro, schema), 0)), schema)
	}
}

func TestTheTagsOfAProtobufSchemaLeadToPaths(t *testing.T) {
	t.Parallel()
	const head = `syntax = "proto3"; import "confluent/meta.proto"; import "google/protobuf/any.proto"; `
	const tag = ` [(confluent.field_meta).tags = "PII"]; `
	for schema, want := range map[string][]string{
		`message A { string a = 1; }`:                                 {},
		`message A { string first_name = 1` + tag + `string b = 2; }`: {"firstName"},
		`message A { string a = 1 [json_name = "x", (confluent.field_meta) = {doc: "d", tags: ["OTHER", "PII"]}]; }`:      {"x"},
		`message A { option (confluent.message_meta).tags = "PII"; string a = 1; }`:                                       {"*"},
		`message A { repeated B b = 1; map<string, B> c = 2; oneof o { B d = 3; } } message B { string x = 1` + tag + `}`: {"b.*.x", "c.*.x", "d.x"},
		`message A { map<string, string> c = 1` + tag + `}`:                                                               {"c"},
		`message A { A next = 1; string x = 2` + tag + `}`:                                                                {"next.**.x", "x"},
		`message A { google.protobuf.Any any = 1; } message B { string x = 1` + tag + `}`:                                 {"any.**.x", "any.x"},
		`message A { E e = 1; } enum E { option (confluent.enum_meta).tags = "PII"; X = 0; }`:                             {"e"},
		`message A { string a = 1; } message B { string a = 1` + tag + `}`:                                                {},
	} {
		w := start(t)
		require.Equal(t, want, w.tagged(first(w.register("orders-value", sr.TypeProtobuf, head+schema))), schema)
	}
	w := start(t)
	id := w.register("orders-value", sr.TypeProtobuf, head+`message A { string a = 1; } message B { string a = 1`+tag+`}`)
	require.Equal(t, []string{"a"}, w.tagged(wire(id, 2, 2)), "of the second message")
	_, err := w.decoder.Tagged(t.Context(), wire(id, 2, 8), []string{"PII"})
	require.ErrorContains(t, err, "names no message")
}

func TestTheTagsOfExtensionsLeadToPaths(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.register("orders-value", sr.TypeProtobuf, `syntax = "proto2"; package p; import "confluent/meta.proto";
		message A { extensions 100 to 200; } extend A { optional string ssn = 100 [(confluent.field_meta).tags = "PII"]; }`)
	require.Equal(t, []string{`\[p\.ssn\]`}, w.tagged(first(id)))
}

func TestTheTagsOfAJSONSchemaLeadToPaths(t *testing.T) {
	t.Parallel()
	const pii = `{"confluent:tags":["PII"]}`
	for schema, want := range map[string][]string{
		`{"properties":{"a":{"type":"string"}}}`:  {},
		`{"properties":{"a":` + pii + `,"b":{}}}`: {"a"},
		pii: {"*"},
		`{"properties":{"a":{"items":` + pii + `},"b":{"items":[{},` + pii + `]},"c":{"prefixItems":[` + pii + `]}}}`:                                           {"a.*", "b.*", "c.*"},
		`{"patternProperties":{"^x":` + pii + `},"properties":{"a":{"additionalProperties":` + pii + `}}}`:                                                      {"*", "a.*"},
		`{"oneOf":[{"properties":{"a":` + pii + `}},{"if":{},"then":{"properties":{"b":` + pii + `}}}]}`:                                                        {"a", "b"},
		`{"properties":{"a":{"$ref":"#/definitions/T~1p"}},"definitions":{"T/p":` + pii + `}}`:                                                                  {"a"},
		`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"#/definitions/T","confluent:tags":["PII"]}},"definitions":{"T":{}}}`:   {"a"},
		`{"properties":{"next":{"$ref":"#"},"ssn":` + pii + `}}`:                                                                                                {"next.**.ssn", "ssn"},
		`{"properties":{"a":{"$ref":"#t"},"b":{"$ref":"#u"}},"$defs":{"T":{"$anchor":"t","confluent:tags":["PII"]},"U":{"$id":"#u","confluent:tags":["PII"]}}}`: {"a", "b"},
		`{"properties":{"a":{"$id":"https://x.example/a.json","properties":{"n":{"$ref":"#/$defs/T"}},"$defs":{"T":` + pii + `}},"b":{"$ref":"a.json"}}}`:       {"a.n", "b.n"},
		`{"properties":{"id":{"properties":{"$id":` + pii + `}}}}`:                                                                                              {`id.\$id`},
		`{"properties":{"a":true,"b":{"not":false,"contentSchema":` + pii + `}}}`:                                                                               {"b"},
	} {
		w := start(t)
		require.Equal(t, want, w.tagged(wire(w.register("orders-value", sr.TypeJSON, schema), '{', '}')), schema)
	}
	w := start(t)
	w.register("customer", sr.TypeJSON, `{"definitions":{"N":{"properties":{"ssn":`+pii+`}}}}`)
	id := w.register("orders-value", sr.TypeJSON, `{"properties":{"c":{"$ref":"customer.json#/definitions/N"}}}`, sr.SchemaReference{Name: "customer.json", Subject: "customer", Version: 1})
	require.Equal(t, []string{"c.ssn"}, w.tagged(wire(id, '{', '}')))
	for _, reference := range []string{"#/definitions/X", "other.json", "#x"} {
		_, err := w.decoder.Tagged(t.Context(), wire(w.register(reference, sr.TypeJSON, `{"items":{"$ref":"`+reference+`"}}`), '{', '}'), []string{"PII"})
		require.ErrorContains(t, err, "is not among its references")
	}
}

func TestTheMetadataOfASchemaHasTagsToo(t *testing.T) {
	t.Parallel()
	const avro = `{"type":"record","name":"A","namespace":"shop","fields":[{"name":"ssn","type":"string"},{"name":"b","type":{"type":"record","name":"B","fields":[{"name":"ssn","type":"string"}]}}]}`
	const proto = `syntax = "proto3"; package shop; message A { string ssn = 1; B b = 2; } message B { string ssn = 1; }`
	const object = `{"properties":{"ssn":{},"b":{"properties":{"ssn":{}}}}}`
	for field, want := range map[string][3][]string{
		"**.ssn":      {{"b.ssn", "ssn"}, {"b.ssn", "ssn"}, {"b.ssn", "ssn"}},
		"shop.B.ssn":  {{"b.ssn"}, {"b.ssn"}, {"b.ssn", "ssn"}},
		"shop.?.b":    {{"b"}, {"b"}, {"b"}},
		"*.ssn":       {{}, {}, {"b.ssn", "ssn"}},
		"$.b.ssn":     {{}, {}, {"b.ssn", "ssn"}},
		"shop.A.[a-z": {{}, {}, {}},
	} {
		for i, text := range []string{avro, proto, object} {
			w := start(t)
			format := []sr.SchemaType{sr.TypeAvro, sr.TypeProtobuf, sr.TypeJSON}[i]
			answer, err := json.Marshal(sr.Schema{Schema: text, Type: format, SchemaMetadata: &sr.SchemaMetadata{Tags: map[string][]string{field: {"PII"}}}})
			require.NoError(t, err)
			w.serve(map[string]string{"/schemas/ids/1": string(answer)})
			require.Equal(t, want[i], w.tagged(wire(1, 0)), field)
		}
	}
}

func TestASchemaWithTooManyTaggedPlacesHidesMore(t *testing.T) {
	t.Parallel()
	w := start(t)
	var wide []string
	for i := range 101 {
		wide = append(wide, fmt.Sprintf(`"p%d":{"confluent:tags":["PII"]}`, i))
	}
	require.Equal(t, []string{"*"}, w.tagged(wire(w.register("wide", sr.TypeJSON, `{"properties":{`+strings.Join(wide, ",")+`}}`), '{', '}')))

	// Each level doubles the number of places.
	var deep strings.Builder
	deep.WriteString(`{"definitions":{"0":{"properties":{"ssn":{"confluent:tags":["PII"]}}}`)
	for i := range 30 {
		fmt.Fprintf(&deep, `,"%d":{"properties":{"l":{"$ref":"#/definitions/%d"},"r":{"$ref":"#/definitions/%d"}}}`, i+1, i, i)
	}
	require.Equal(t, []string{"**.ssn"}, w.tagged(wire(w.register("deep", sr.TypeJSON, deep.String()+`},"$ref":"#/definitions/30"}`), '{', '}')))
}

func TestTagsOfASchemaThatIsNotKnownAreAnError(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, data := range [][]byte{wire(99, 0), []byte(`{}`), nil} {
		_, err := w.decoder.Tagged(t.Context(), data, []string{"PII"})
		require.Error(t, err)
	}
}
