package registry

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// rootOf returns the full name of the value's message, or an empty text if the schema has no such message.
func (p *protobuf) rootOf(data []byte) string {
	md, _, err := p.message(data)
	if err != nil {
		return ""
	}
	return string(md.FullName())
}

// shapes follows messages as protojson writes them. An Any may have any message of the schema. protojson may
// write Google's other messages as texts or numbers.
func (p *protobuf) shapes(tagsOf func(typeName, field string) []string) (map[string]*shape, error) {
	known := map[string]*shape{}
	enums := map[protoreflect.FullName]*shape{}
	files := map[string][]string{} // the tags of each file
	anything := &shape{}
	messages, extensions := p.all()
	ofEnum := func(ed protoreflect.EnumDescriptor) *shape {
		s := enums[ed.FullName()]
		if s == nil {
			s = &shape{tags: metaTags(ed.Options())}
			for i := range ed.Values().Len() {
				s.tags = append(s.tags, metaTags(ed.Values().Get(i).Options())...)
			}
			enums[ed.FullName()] = s
		}
		return s
	}
	var of func(protoreflect.MessageDescriptor) *shape
	field := func(fd protoreflect.FieldDescriptor) *shape {
		s := &shape{tags: slices.Concat(metaTags(fd.Options()), tagsOf(string(fd.ContainingMessage().FullName()), string(fd.Name())))}
		value, single := &shape{}, fd
		if fd.IsMap() {
			single = fd.MapValue()
		}
		if single.Message() != nil {
			value = of(single.Message())
		} else if single.Enum() != nil {
			value = ofEnum(single.Enum())
		}
		if fd.IsList() || fd.IsMap() {
			s.add(anyName, value)
		} else {
			s.same = append(s.same, value)
		}
		return s
	}
	of = func(md protoreflect.MessageDescriptor) *shape {
		if s := known[string(md.FullName())]; s != nil {
			return s
		}
		file := md.ParentFile()
		if _, ok := files[file.Path()]; !ok {
			files[file.Path()] = metaTags(file.Options())
		}
		s := &shape{tags: slices.Concat(metaTags(md.Options()), files[file.Path()])}
		known[string(md.FullName())] = s
		fields := s
		if md.FullName().Parent() == "google.protobuf" {
			fields = &shape{isText: true}
			s.same = append(s.same, fields)
		}
		if md.FullName() == "google.protobuf.Any" {
			s.same = append(s.same, anything)
		}
		for i := range md.Fields().Len() {
			fd := md.Fields().Get(i)
			fields.add(fd.JSONName(), field(fd))
		}
		for _, fd := range extensions[md.FullName()] {
			fields.add("["+string(fd.FullName())+"]", field(fd))
		}
		return s
	}
	for _, md := range messages {
		anything.same = append(anything.same, of(md))
	}
	return known, nil
}

// all returns the messages of the schema and of its imports, and the extensions of each message.
func (p *protobuf) all() (messages []protoreflect.MessageDescriptor, extensions map[protoreflect.FullName][]protoreflect.FieldDescriptor) {
	extensions = map[protoreflect.FullName][]protoreflect.FieldDescriptor{}
	var visit func(protoreflect.MessageDescriptors, protoreflect.ExtensionDescriptors)
	visit = func(of protoreflect.MessageDescriptors, xs protoreflect.ExtensionDescriptors) {
		for i := range xs.Len() {
			extended := xs.Get(i).ContainingMessage().FullName()
			extensions[extended] = append(extensions[extended], xs.Get(i))
		}
		for i := range of.Len() {
			messages = append(messages, of.Get(i))
			visit(of.Get(i).Messages(), of.Get(i).Extensions())
		}
	}
	p.files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		visit(file.Messages(), file.Extensions())
		return true
	})
	return messages, extensions
}

// metaTags returns the tags in Confluent's option, which has the same number for messages, fields and
// enums.
func metaTags(options proto.Message) (tags []string) {
	const meta, tagsOfMeta = 1088, 3
	encoded, _ := proto.MarshalOptions{AllowPartial: true}.Marshal(options)
	eachField(encoded, meta, func(content []byte) {
		eachField(content, tagsOfMeta, func(tag []byte) { tags = append(tags, string(tag)) })
	})
	return tags
}

// eachField calls visit for each field of an encoded message that has this number and a length.
func eachField(message []byte, wanted protowire.Number, visit func(content []byte)) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return
		}
		size := protowire.ConsumeFieldValue(number, kind, message[n:])
		if size < 0 {
			return
		}
		if number == wanted && kind == protowire.BytesType {
			content, _ := protowire.ConsumeBytes(message[n:])
			visit(content)
		}
		message = message[n+size:]
	}
}
