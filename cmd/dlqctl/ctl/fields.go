package ctl

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// decode reads JSON. Numbers keep the form in which they are written.
func decode(content []byte) (any, error) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("the answer is no JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the answer is more than one JSON value")
	}
	return value, nil
}

// at returns the field at a path, such as counts.PENDING or topics.0. It is nil if there is no such field.
func at(value any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		switch container := value.(type) {
		case map[string]any:
			value = container[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(container) {
				return nil
			}
			value = container[i]
		default:
			return nil
		}
	}
	return value
}

// stored returns the text of a key or value. The API sends a key or value as an object with base64 and size. The result is
// false for other objects, and for bytes that are no text.
func stored(object map[string]any) (string, bool) {
	encoded, ok := object["base64"].(string)
	if _, sized := object["size"]; !ok || !sized || len(object) != 2 {
		return "", false
	}
	content, err := base64.StdEncoding.DecodeString(encoded)
	return string(content), err == nil && utf8.Valid(content)
}

// text writes a value as plain text. Null becomes an empty text. The texts of a list are joined by commas. Other lists and
// objects stay JSON.
func text(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case map[string]any:
		if written, ok := stored(v); ok {
			return written
		}
	case []any:
		if !slices.ContainsFunc(v, func(element any) bool { _, isText := element.(string); return !isText }) {
			return strings.Join(mapped(v, text), ", ")
		}
	}
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Sprint(value)
	}
	return strings.TrimSpace(line.String())
}

// mapped converts each element of a list.
func mapped[T, U any](list []T, convert func(T) U) []U {
	converted := make([]U, len(list))
	for i, element := range list {
		converted[i] = convert(element)
	}
	return converted
}

// as converts a value to a type of the client. The value and the type have the same JSON.
func as[T any](value any) (converted T, err error) {
	content, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(content, &converted)
	}
	return converted, err
}

// choose makes a JSON object that has the given fields in the given order.
func choose(value any, fields []string) ([]byte, error) {
	members := make([][]byte, len(fields))
	for i, path := range fields {
		object, err := json.Marshal(map[string]any{path: at(value, path)})
		if err != nil {
			return nil, err
		}
		members[i] = object[1 : len(object)-1]
	}
	return slices.Concat([]byte("{"), bytes.Join(members, []byte(",")), []byte("}")), nil
}

// schema has the fields of records by their JSON names. If it is nil, any field is allowed.
type schema map[string]schema

// knownFields reads the fields of the types of the samples.
func knownFields(samples ...any) schema {
	fields := schema{}
	for _, sample := range samples {
		fields.add(reflect.TypeOf(sample))
	}
	return fields
}

func (s schema) add(t reflect.Type) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		inner := f.Type
		for inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		s[name] = nil
		if inner.Kind() == reflect.Struct && inner != reflect.TypeFor[time.Time]() {
			s[name] = schema{}
			s[name].add(inner)
		} else if inner.Kind() != reflect.Slice && inner.Kind() != reflect.Map {
			s[name] = schema{}
		}
	}
}

func (s schema) has(path string) bool {
	for name := range strings.SplitSeq(path, ".") {
		if s == nil {
			return true
		}
		below, ok := s[name]
		if !ok {
			return false
		}
		s = below
	}
	return true
}

func (s schema) names() []string { return slices.Sorted(maps.Keys(s)) }
