package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"dlqmanager/dlq"
)

// protobuf is the codec of a Protobuf file.
type protobuf struct {
	file  protoreflect.FileDescriptor
	files *protoregistry.Files // the file and all that it imports
	types *dynamicpb.Types     // the types of these files
}

// rootFile is the name of the schema itself, which the registry does not give.
const rootFile = "schema of the registry.proto"

func compileProtobuf(ctx context.Context, sources []*source) (codec, error) {
	texts := maps.Clone(knownImports)
	for _, s := range sources {
		texts[s.name] = s.text
	}
	texts[rootFile] = sources[len(sources)-1].text
	schemas := &protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(texts)}
	// Google's own files come before the files of the registry: protojson relies on their form.
	google := protocompile.WithStandardImports(protocompile.CompositeResolver{})
	compiler := protocompile.Compiler{Resolver: protocompile.CompositeResolver{google, schemas}, MaxParallelism: 1}
	files, err := compiler.Compile(ctx, rootFile)
	if err != nil {
		if ctx.Err() != nil {
			return nil, badSchema("its schema takes too long to compile")
		}
		return nil, badSchema("its schema does not compile: %s", short(err))
	}
	all := &protoregistry.Files{}
	if err := register(all, files[0]); err != nil {
		return nil, badSchema("its schema does not compile: %s", short(err))
	}
	return &protobuf{files[0], all, dynamicpb.NewTypes(all)}, nil
}

// register adds a file and what it imports.
func register(all *protoregistry.Files, file protoreflect.FileDescriptor) error {
	if _, err := all.FindFileByPath(file.Path()); err == nil {
		return nil
	}
	for i := range file.Imports().Len() {
		if err := register(all, file.Imports().Get(i).FileDescriptor); err != nil {
			return err
		}
	}
	return all.RegisterFile(file)
}

// decode writes JSON as protojson does: names in lowerCamelCase, unset fields left out, 64-bit
// integers as strings.
func (p *protobuf) decode(into *dlq.Decoded, data []byte) error {
	md, data, err := p.message(data)
	if err != nil {
		return err
	}
	into.Schema.MessageType = string(md.FullName())
	w := weigher{types: p.types, left: maxWeight}
	if err := w.message(md, data, 0); err != nil {
		return err
	}
	m := dynamicpb.NewMessage(md)
	// protojson follows Any to any depth, but the weigher has limited the depth.
	if err := (proto.UnmarshalOptions{AllowPartial: true, Resolver: p.types, RecursionLimit: 2 * maxNesting}).Unmarshal(data, m); err != nil {
		return badValue("it is not a message %s: %s", md.FullName(), short(err))
	}
	into.TraceID, into.CorrelationID = eventMetadata(m)
	text, err := protojson.MarshalOptions{AllowPartial: true, Resolver: p.types}.Marshal(m)
	if err != nil {
		return badValue("its message %s has no JSON form: %s", md.FullName(), short(err))
	}
	if string(text) == "{}" && len(m.GetUnknown()) > 0 {
		return badValue("it has no field of the message %s", md.FullName())
	}
	into.JSON = text
	return nil
}

// encode keeps the message indexes of the original. If the original has fields that its schema does not
// know, encode returns an error, since these fields would be lost.
func (p *protobuf) encode(original []byte, edited json.RawMessage) ([]byte, error) {
	md, data, err := p.message(original)
	if err != nil {
		return nil, err
	}
	if _, err := p.known(md, data); err != nil {
		return nil, badValue("the original %s", err)
	}
	// Commas count too, because a message need not have braces: a well-known type can be a number.
	if bytes.Count(edited, []byte("{"))+bytes.Count(edited, []byte(",")) > maxWeight/messageWeight {
		return nil, &failure{reasonTooLarge, "it has too many messages or elements"}
	}
	m := dynamicpb.NewMessage(md)
	if err := (protojson.UnmarshalOptions{Resolver: p.types, RecursionLimit: maxNesting}).Unmarshal(edited, m); err != nil {
		return nil, badValue("it is not the JSON of a message %s: %s", md.FullName(), short(err))
	}
	indexes := original[:len(original)-len(data)]
	encoded, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(slices.Clone(indexes), m)
	if err != nil {
		return nil, badValue("it cannot be encoded as a message %s: %s", md.FullName(), short(err))
	}
	return encoded, nil
}

// reads finds the message by its name, since the message's indexes may differ in this schema.
func (p *protobuf) reads(writer codec, data []byte) error {
	other, ok := writer.(*protobuf)
	if !ok {
		return badSchema("it has another format")
	}
	md, data, err := other.message(data)
	if err != nil {
		return err
	}
	read, err := p.types.FindMessageByName(md.FullName())
	if err != nil {
		return badValue("it has no message %s", md.FullName())
	}
	m, err := p.known(read.Descriptor(), data)
	if err == nil {
		err = proto.CheckInitialized(m)
	}
	if err != nil {
		return badValue("the value %s", short(err))
	}
	return nil
}

// known decodes a message. It returns an error if the schema does not know a field of the message, or has
// another type for the field.
func (p *protobuf) known(md protoreflect.MessageDescriptor, data []byte) (*dynamicpb.Message, error) {
	m := dynamicpb.NewMessage(md)
	if err := (proto.UnmarshalOptions{AllowPartial: true, Resolver: p.types, RecursionLimit: 2 * maxNesting}).Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("is not a message %s: %s", md.FullName(), short(err))
	}
	return m, protorange.Options{Resolver: p.types}.Range(m, func(values protopath.Values) error {
		last := values.Index(-1)
		inner, ok := last.Value.Interface().(protoreflect.Message)
		if !ok || len(inner.GetUnknown()) == 0 {
			return nil
		}
		number, _, _ := protowire.ConsumeTag(inner.GetUnknown())
		return fmt.Errorf("has field %d of a message %s, which is not in the schema or has another type there", number, inner.Descriptor().FullName())
	}, nil)
}

// message reads the message indexes, which lead from the messages of the file to the message of the value. They
// are zigzag varints: first the number of indexes, then each index. The number 0 stands for the first message.
func (p *protobuf) message(data []byte) (md protoreflect.MessageDescriptor, rest []byte, err error) {
	next := func() int64 {
		value, n := protowire.ConsumeVarint(data)
		if n < 0 {
			return -1
		}
		data = data[n:]
		return protowire.DecodeZigZag(value)
	}
	count := next()
	if count < 0 || count > maxDepth*2 {
		return nil, nil, badValue("its schema is a Protobuf schema, but it has no message indexes")
	}
	messages := p.file.Messages()
	for i := range max(count, 1) {
		var index int64
		if count > 0 {
			index = next()
		}
		if md = nth(messages, index); md == nil {
			return nil, nil, badValue("message index %d of its message indexes is %d, and its schema has no such message", i, index)
		}
		messages = md.Messages()
	}
	return md, data, nil
}

// nth returns a message by its index among the messages that are written in the schema. The entries of
// maps do not count.
func nth(messages protoreflect.MessageDescriptors, index int64) protoreflect.MessageDescriptor {
	for i := range messages.Len() {
		if messages.Get(i).IsMapEntry() {
			continue
		}
		if index == 0 {
			return messages.Get(i)
		}
		index--
	}
	return nil
}

// eventMetadata reads the ids in a field that is called metadata, or whose type is called EventMetadata.
func eventMetadata(m protoreflect.Message) (traceID, correlationID string) {
	m.Range(func(fd protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if fd.Message() == nil || fd.IsList() || fd.IsMap() || fd.Message().Name() != "EventMetadata" && fd.Name() != "metadata" {
			return true
		}
		text := func(name protoreflect.Name) string {
			field := fd.Message().Fields().ByName(name)
			if field == nil || field.Kind() != protoreflect.StringKind || field.IsList() {
				return ""
			}
			return idOf(value.Message().Get(field).String())
		}
		traceID, correlationID = text("trace_id"), text("correlation_id")
		return traceID == "" && correlationID == ""
	})
	return traceID, correlationID
}

// maxWeight limits the memory that a decoded message and its JSON may need, in bytes.
const (
	maxWeight     = 32 << 20
	messageWeight = 200 // the bytes of an empty message
)

// weigher estimates the memory of a message before it is decoded. Two bytes of a value can become an empty
// message, which takes two hundred bytes, or an enum's name of many thousands of bytes.
type weigher struct {
	types *dynamicpb.Types
	left  int
}

func (w *weigher) spend(bytes int) error {
	if w.left -= bytes; w.left < 0 {
		return &failure{reasonTooLarge, "it would be too large when decoded"}
	}
	return nil
}

func (w *weigher) message(md protoreflect.MessageDescriptor, data []byte, depth int) error {
	if depth > maxNesting {
		return &failure{reasonTooLarge, "its messages are nested too deep"}
	}
	if err := w.spend(messageWeight); err != nil {
		return err
	}
	var packed [2][]byte // the URL and the value of an Any
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return badValue("it is not a message %s: %s", md.FullName(), protowire.ParseError(n))
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
			return badValue("it is not a message %s: %s", md.FullName(), protowire.ParseError(n))
		}
		content := contentOf(kind, number, data[:n])
		data = data[n:]
		if md.FullName() == "google.protobuf.Any" && kind == protowire.BytesType && number <= 2 {
			packed[number-1] = content
		}
		if err := w.field(w.fieldOf(md, number), kind, content, depth); err != nil {
			return err
		}
	}
	if len(packed[0]) == 0 {
		return nil
	}
	inner, err := w.types.FindMessageByURL(string(packed[0]))
	if err != nil {
		return badValue("it contains a message %.200q, which is not in its schema", packed[0])
	}
	return w.message(inner.Descriptor(), packed[1], depth+1)
}

// contentOf is the field's value without its length or end.
func contentOf(kind protowire.Type, number protowire.Number, data []byte) []byte {
	if kind == protowire.BytesType {
		data, _ = protowire.ConsumeBytes(data)
		return data
	}
	if kind == protowire.StartGroupType {
		data, _ = protowire.ConsumeGroup(number, data)
	}
	return data
}

// fieldOf is nil for an unknown field.
func (w *weigher) fieldOf(md protoreflect.MessageDescriptor, number protowire.Number) protoreflect.FieldDescriptor {
	if fd := md.Fields().ByNumber(number); fd != nil {
		return fd
	}
	if extension, err := w.types.FindExtensionByNumber(md.FullName(), number); err == nil {
		return extension.TypeDescriptor()
	}
	return nil
}

func (w *weigher) field(fd protoreflect.FieldDescriptor, kind protowire.Type, content []byte, depth int) error {
	if fd == nil {
		return w.spend(len(content))
	}
	if err := w.spend(64 + len(fd.FullName())); err != nil {
		return err
	}
	isBytes := kind == protowire.BytesType
	switch {
	case fd.Message() != nil && (isBytes || kind == protowire.StartGroupType):
		return w.message(fd.Message(), content, depth+1)
	case fd.Enum() != nil: // a single value, or a packed list
		for len(content) > 0 {
			number, n := protowire.ConsumeVarint(content)
			if n < 0 {
				return w.spend(len(content))
			}
			content = content[n:]
			name := 32
			if value := fd.Enum().Values().ByNumber(protoreflect.EnumNumber(number)); value != nil {
				name += len(value.Name())
			}
			if err := w.spend(name); err != nil {
				return err
			}
		}
		return nil
	case isBytes && (fd.Kind() == protoreflect.StringKind || fd.Kind() == protoreflect.BytesKind):
		return w.spend(3 * len(content))
	case isBytes: // a packed list of numbers
		return w.spend(40 * len(content))
	}
	return nil
}

// knownImports are files that Confluent's serializers know without a reference. The texts here have
// the same numbers and types.
var knownImports = map[string]string{
	"confluent/meta.proto": `syntax = "proto3"; package confluent;
		import "google/protobuf/descriptor.proto";
		message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
		extend google.protobuf.FileOptions { Meta file_meta = 1088; }
		extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
		extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
		extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
		extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }`,
	"confluent/type/decimal.proto": `syntax = "proto3"; package confluent.type;
		message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }`,
}
