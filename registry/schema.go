package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/sr"

	"dlqmanager/dlq"
)

// schema decodes the values that were written with one schema of the registry.
type schema struct {
	format   string
	versions []sr.SubjectVersion // sorted, the newest version of a subject first
	codec    codec
	tagger   *tagger
	size     int // of its text and its tags, and of its references
}

// codec decodes and encodes the bytes after the id.
type codec interface {
	// decode sets the JSON, the message type, and the trace id and correlation id in the event's metadata.
	decode(into *dlq.Decoded, data []byte) error
	// encode is the inverse of decode, for a value that takes the place of the original.
	encode(original []byte, edited json.RawMessage) ([]byte, error)
	// reads returns an error if consumers with this schema could not read bytes that a writer of
	// the same format has encoded.
	reads(writer codec, data []byte) error
	// rootOf names the type of a value, if a schema of this format can have several types for values.
	rootOf(data []byte) string
	// shapes returns the shape of the JSON of values, for each type that rootOf can name. tagsOf returns the tags that
	// the metadata has for a field of a type.
	shapes(tagsOf func(typeName, field string) []string) (map[string]*shape, error)
}

// maxVersions limits how many subjects of one schema are kept.
const maxVersions = 100

// compile makes a schema of the texts that were read.
func compile(ctx context.Context, f *fetch) (*schema, error) {
	s := &schema{format: f.format.String(), versions: f.versions, tagger: newTagger(f.tags), size: f.size + 1}
	slices.SortFunc(s.versions, func(a, b sr.SubjectVersion) int {
		return cmp.Or(strings.Compare(a.Subject, b.Subject), cmp.Compare(b.Version, a.Version))
	})
	s.versions = slices.Clone(s.versions[:min(len(s.versions), maxVersions)])
	for _, source := range f.sources {
		if nesting(source.text) > maxNesting {
			return nil, badSchema("its schema is nested more than %d levels deep", maxNesting)
		}
	}
	var err error
	switch f.format {
	case sr.TypeAvro:
		s.codec, err = compileAvro(f.sources)
	case sr.TypeProtobuf:
		s.codec, err = compileProtobuf(ctx, f.sources)
	case sr.TypeJSON:
		s.codec = &jsonSchema{f.sources}
	default:
		err = badSchema("its schema has the unknown format %s", s.format)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// maxNesting limits brackets in the text of a schema, and messages in a value. A parser that
// calls itself for each bracket could need more stack than Go allows, which ends the program.
const maxNesting = 100

// nesting is the deepest nesting of brackets, including brackets in strings and comments.
func nesting(text string) (deepest int) {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '{', '[', '(', '<':
			depth++
			deepest = max(deepest, depth)
		case '}', ']', ')', '>':
			depth = max(depth-1, 0)
		}
	}
	return deepest
}

// describe names the schema. If the schema has several subjects, describe prefers the subject of the topic, as
// most serializers name it.
func (s *schema) describe(id uint32, topic string, isKey bool) dlq.Schema {
	described := dlq.Schema{Format: s.format, ID: id}
	wanted := topic + "-value"
	if isKey {
		wanted = topic + "-key"
	}
	for i, v := range s.versions {
		if i == 0 || v.Subject == wanted && described.Subject != wanted {
			described.Subject, described.Version = v.Subject, v.Version
		}
	}
	return described
}

func (s *schema) decodeInto(decoded *dlq.Decoded, data []byte) error {
	return guard(reasonValue, func() error { return s.codec.decode(decoded, data) })
}

// metadataOf returns the trace id and the correlation id of an event's metadata. Their names may be in
// snake_case or in lowerCamelCase.
func metadataOf(data []byte) (traceID, correlationID string) {
	var event struct {
		Metadata struct {
			TraceID           any `json:"trace_id"`
			TraceIDJSON       any `json:"traceId"` //nolint:tagliatelle // as Protobuf's JSON has it
			CorrelationID     any `json:"correlation_id"`
			CorrelationIDJSON any `json:"correlationId"` //nolint:tagliatelle // as above
		} `json:"metadata"`
	}
	_ = json.Unmarshal(data, &event) // on an error the ids stay empty
	m := event.Metadata
	return cmp.Or(idOf(m.TraceID), idOf(m.TraceIDJSON)), cmp.Or(idOf(m.CorrelationID), idOf(m.CorrelationIDJSON))
}

// maxID is the longest text that counts as an id, in bytes.
const maxID = 255

func idOf(value any) string {
	text, ok := value.(string)
	if !ok || len(text) > maxID || dlq.StorableText(text) != text {
		return ""
	}
	return text
}
