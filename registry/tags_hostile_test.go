package registry_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/sr"
)

const piiTag = `"confluent:tags":["PII"]`

func TestHostileSchemasTakeNoLongTimeForTheirTags(t *testing.T) {
	t.Parallel()
	w := start(t)
	repeat := func(n int, text string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.ReplaceAll(text, "%d", strconv.Itoa(i)))
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	meta := func(text string, format sr.SchemaType, tags map[string][]string) string {
		answer, err := json.Marshal(sr.Schema{Schema: text, Type: format, SchemaMetadata: &sr.SchemaMetadata{Tags: tags}})
		require.NoError(t, err)
		return string(answer)
	}
	tags := map[string][]string{}
	for i := range 8000 {
		tags[fmt.Sprintf("*a*%d*b", i)] = []string{"PII"}
	}
	bodies := map[string]string{
		"messages with Any":      textOf("PROTOBUF", `syntax = "proto3"; import "google/protobuf/any.proto";`+repeat(5000, `message M%d{google.protobuf.Any a=1;}`)),
		"many of one identifier": textOf("JSON", `{"$id":"x","anyOf":[`+repeat(9000, `{"$id":"x","$ref":"x"},`)+`]}`),
		"many of one anchor":     textOf("JSON", `{"anyOf":[`+repeat(8000, `{"$anchor":"x","$ref":"#x"},`)+`]}`),
		"many identifiers":       textOf("JSON", `{"anyOf":[`+repeat(6000, `{"$id":"x%d","$ref":"x%d"},`)+`]}`),
		"recursion in each":      textOf("JSON", `{"definitions":{`+repeat(2500, `"%d":{"properties":{"a":{"$ref":"#"}}},`)+`},"anyOf":[`+repeat(2500, `{"$ref":"#/definitions/%d"},`)+`]}`),
		"a long name":            textOf("JSON", `{"properties":{"`+strings.Repeat("x", 100_000)+`":{"anyOf":[`+repeat(50_000, `{},`)+`]}}}`),
		"metadata":               meta(`{"properties":{`+repeat(4000, `"aaaaaaaaaaaaa%d":{},`)+`}}`, sr.TypeJSON, tags),
		"a long pattern":         meta(`{"properties":{"`+strings.Repeat("a", 120_000)+`":{}}}`, sr.TypeJSON, map[string][]string{strings.Repeat("*a", 50_000) + "b": {"PII"}}),
	}
	id := uint32(0)
	answers := map[string]string{}
	ids := map[string]uint32{}
	for name, body := range bodies {
		id++
		answers[fmt.Sprintf("/schemas/ids/%d", id)], ids[name] = body, id
	}
	w.serve(answers)
	for name, id := range ids {
		_, _ = w.decode(wire(id, 0)) // loads the schema
		began := time.Now()
		_, err := w.decoder.Tagged(t.Context(), wire(id, 0), []string{"OTHER"})
		require.Less(t, time.Since(began), 5*time.Second, name)
		if err != nil {
			require.ErrorContains(t, err, "too many", name)
		}
	}
}
