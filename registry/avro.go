package registry

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/twmb/avro"

	"dlqmanager/dlq"
)

// avroCodec is the codec of an Avro schema.
type avroCodec struct {
	schema *avro.Schema
	root   *avroType
	name   string
	// defaults is the total length of the default values of all fields, as JSON.
	defaults int
}

// avroType is a type of an Avro schema, whose references to named types are resolved.
type avroType struct {
	kind     string // int, record, union …
	name     string // of a record, an enum or a fixed, with its namespace
	logical  string
	fields   []avroField // of a record
	item     *avroType   // of an array or a map
	branches []*avroType // of a union
	symbols  []string    // of an enum
	size     int         // of a fixed, else 0
	scale    int         // of a decimal
	digits   int         // of a decimal, its precision
	tags     []string
}

type avroField struct {
	name   string
	prefix string // the field's name as JSON, and a colon
	value  *avroType
	// standard is the length of the field's default value as JSON.
	standard int
	tags     []string
}

// compileAvro parses the schema and its references. It accepts names that Avro does not allow,
// since many producers use such names.
func compileAvro(sources []*source) (codec, error) {
	var parsed avro.SchemaCache
	names := map[string]*avroType{}
	var codec avroCodec
	for _, s := range sources { // the last source is the schema, after its references
		var err error
		if codec.schema, err = parsed.Parse(s.text, avro.WithLaxNames(nil)); err != nil {
			return nil, badSchema("its schema cannot be parsed: %s", short(err))
		}
		root := codec.schema.Root()
		if codec.root, err = resolveAvro(root, "", names); err != nil {
			return nil, err
		}
		codec.name = fullName(root.Name, root.Namespace)
	}
	for _, t := range names {
		for _, field := range t.fields {
			codec.defaults += field.standard
		}
	}
	return codec, nil
}

func fullName(name, namespace string) string {
	if namespace == "" || strings.Contains(name, ".") {
		return name
	}
	return namespace + "." + name
}

// resolveAvro converts a type. Definitions come before references, as the parser has checked,
// and a type may refer to itself.
func resolveAvro(node *avro.SchemaNode, namespace string, names map[string]*avroType) (t *avroType, err error) {
	t = &avroType{kind: node.Type, logical: node.LogicalType, symbols: node.Symbols, scale: node.Scale, digits: node.Precision,
		tags: tagsIn(node.Props)}
	if node.Name != "" {
		name := fullName(node.Name, node.Namespace)
		names[name], t.name = t, name
		namespace = name[:max(strings.LastIndexByte(name, '.'), 0)]
	}
	switch node.Type {
	case "null", "boolean", "int", "long", "float", "double", "bytes", "string", "enum":
	case "fixed":
		t.size = node.Size
	case "record", "error":
		t.kind = "record"
		for i := range node.Fields {
			field := avroField{name: node.Fields[i].Name, prefix: string(appendText(nil, node.Fields[i].Name)) + ":", tags: tagsIn(node.Fields[i].Props)}
			if node.Fields[i].HasDefault {
				standard, _ := json.Marshal(node.Fields[i].Default) // the error of NaN, which has no JSON, does not matter
				field.standard = len(standard)
			}
			if field.value, err = resolveAvro(&node.Fields[i].Type, namespace, names); err != nil {
				return nil, err
			}
			t.fields = append(t.fields, field)
		}
	case "array", "map":
		item := node.Items
		if node.Type == "map" {
			item = node.Values
		}
		t.item, err = resolveAvro(item, namespace, names)
	case "union":
		for i := range node.Branches {
			branch, err := resolveAvro(&node.Branches[i], namespace, names)
			if err != nil {
				return nil, err
			}
			t.branches = append(t.branches, branch)
		}
	default:
		for _, name := range []string{fullName(node.Type, namespace), node.Type} {
			if known := names[name]; known != nil {
				known.tags = append(known.tags, t.tags...) // a reference may have attributes too
				return known, nil
			}
		}
		return nil, badSchema("its schema has the unknown type %.200q", node.Type)
	}
	return t, err
}

func (c avroCodec) decode(into *dlq.Decoded, data []byte) error {
	into.Schema.MessageType = c.name
	r := avroReader{data: data}
	if r.value(c.root, 0); r.err != nil {
		return r.err
	}
	if len(r.data) > 0 {
		return badValue("it was not written with its schema: %d bytes are left", len(r.data))
	}
	into.JSON = r.out
	into.TraceID, into.CorrelationID = metadataOf(r.out)
	return nil
}

func (avroCodec) rootOf([]byte) string { return "" }

func (c avroCodec) shapes(tagsOf func(typeName, field string) []string) (map[string]*shape, error) {
	known := map[*avroType]*shape{}
	var of func(*avroType) *shape
	of = func(t *avroType) *shape {
		if s := known[t]; s != nil {
			return s
		}
		s := &shape{tags: t.tags}
		known[t] = s
		for _, f := range t.fields {
			s.add(f.name, &shape{tags: slices.Concat(f.tags, tagsOf(t.name, f.name)), same: []*shape{of(f.value)}})
		}
		if t.item != nil {
			s.add(anyName, of(t.item))
		}
		for _, branch := range t.branches {
			s.same = append(s.same, of(branch))
		}
		return s
	}
	return map[string]*shape{"": of(c.root)}, nil
}

// tagsIn returns the tags in the attributes of an Avro type or field, or in the keywords of a JSON Schema.
func tagsIn(attributes map[string]any) (tags []string) {
	list, isList := attributes[inlineTags].([]any)
	if !isList {
		list = []any{attributes[inlineTags]}
	}
	for _, item := range list {
		if tag, ok := item.(string); ok {
			tags = append(tags, tag)
		}
	}
	return tags
}
