package config

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Each field of a section has these tags:
//
//   - yaml names its key.
//   - default is its default, in the form of the environment.
//   - check has the rules for its value; see section.check.
//   - file is "secret" if the value is the path of a secret file, which CheckFiles reads.
//   - empty is the advice in the error about an empty list.
//   - log is "no query" for a URL whose query may have a secret.

// field is a key of a section or of a section inside it: its path, its tags and its value. The path begins at the section.
type field struct {
	path  string
	tag   reflect.StructTag
	value reflect.Value
}

// keysOf lists the fields of a section that have a key. So each new field becomes a key of the file, an environment variable,
// and a part of the logged configuration.
func keysOf(structure reflect.Value) (fields []field) {
	for _, f := range reflect.VisibleFields(structure.Type()) {
		if key := f.Tag.Get("yaml"); key != "" && !f.Anonymous {
			fields = append(fields, field{key, f.Tag, structure.FieldByIndex(f.Index)})
		}
	}
	return fields
}

// fieldsOf lists every key of a section and of the sections inside it. It leaves out the entries of maps.
func fieldsOf(path string, structure reflect.Value) (fields []field) {
	for _, f := range keysOf(structure) {
		if f.path = below(path, f.path); isSection(f.value) {
			fields = append(fields, fieldsOf(f.path, f.value)...)
		} else {
			fields = append(fields, f)
		}
	}
	return fields
}

// below is the path of a key in the section at path. path and key may be empty.
func below(path, key string) string {
	if path == "" || key == "" {
		return path + key
	}
	return path + "." + key
}

// isSection tells a section from a value. Structs that parse text, such as Secret, are values.
func isSection(value reflect.Value) bool {
	_, isText := value.Addr().Interface().(encoding.TextUnmarshaler)
	return value.Kind() == reflect.Struct && !isText
}

// newDefault returns a new value of a type, with the defaults of its fields.
func newDefault(of reflect.Type) reflect.Value {
	value := reflect.New(of).Elem()
	if isSection(value) {
		setDefaults(value)
	}
	return value
}

func setDefaults(structure reflect.Value) {
	for _, f := range fieldsOf("", structure) {
		if text, found := f.tag.Lookup("default"); found {
			if err := setText(f.value, text); err != nil {
				panic(fmt.Sprintf("config: default of %s: %v", f.path, err))
			}
		}
	}
}

// eachSection calls visit for a section and for each section inside it, also inside maps. visit gets an addressable structure.
func eachSection(path string, structure reflect.Value, visit func(path string, structure reflect.Value)) {
	visit(path, structure)
	for _, f := range keysOf(structure) {
		path := below(path, f.path)
		switch {
		case isSection(f.value):
			eachSection(path, f.value, visit)
		case f.value.Kind() == reflect.Map && f.value.Type().Elem().Kind() == reflect.Struct:
			for _, name := range sortedKeys(f.value) {
				eachSection(below(path, name.String()), addressable(f.value.MapIndex(name)), visit)
			}
		}
	}
}

func sortedKeys(mapping reflect.Value) []reflect.Value {
	return slices.SortedFunc(slices.Values(mapping.MapKeys()), func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
}

// addressable copies an entry of a map, since entries of maps are not addressable.
func addressable(entry reflect.Value) reflect.Value {
	value := reflect.New(entry.Type()).Elem()
	value.Set(entry)
	return value
}

// entry is a section in a map that also has a short form in the environment.
type entry interface{ setText(text string) }

// setText parses a value in the form of the environment.
func setText(value reflect.Value, text string) error { return parse(value, text, ",") }

// parse is setText with another separator of lists. In a map, commas separate the entries, so the items of a list are separated
// by |.
func parse(value reflect.Value, text, separator string) error {
	switch target := value.Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		return target.UnmarshalText([]byte(text))
	case entry:
		target.setText(text)
		return nil
	}
	switch value.Kind() {
	case reflect.String:
		value.SetString(text)
	case reflect.Int:
		n, err := strconv.ParseInt(text, 10, strconv.IntSize)
		if err != nil {
			return fmt.Errorf("must be a whole number that fits, not %q", text)
		}
		value.SetInt(n)
	case reflect.Pointer:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("must be true or false, not %q", text)
		}
		value.Set(reflect.ValueOf(&b))
	case reflect.Slice:
		return parseList(value, text, separator)
	case reflect.Map:
		return parseMap(value, text)
	default:
		panic(fmt.Sprintf("config: no way to read a %s", value.Type()))
	}
	return nil
}

func parseList(value reflect.Value, text, separator string) error {
	items := strings.Split(text, separator)
	for i, item := range items {
		if items[i] = strings.TrimSpace(item); items[i] == "" {
			return fmt.Errorf("has an empty entry, number %d", i+1)
		}
	}
	value.Set(reflect.ValueOf(items))
	return nil
}

func parseMap(value reflect.Value, text string) error {
	pairs := reflect.MakeMap(value.Type())
	for i, pair := range strings.Split(text, ",") {
		name, content, found := strings.Cut(pair, "=")
		name, content = strings.TrimSpace(name), strings.TrimSpace(content)
		if !found || name == "" || content == "" {
			return fmt.Errorf("must be key=value pairs separated by commas; number %d is not one", i+1) // it may be a part of a secret
		}
		key, target := reflect.ValueOf(name), newDefault(value.Type().Elem())
		if pairs.MapIndex(key).IsValid() {
			return fmt.Errorf("names %q twice", name)
		}
		if err := parse(target, content, "|"); err != nil {
			return err
		}
		pairs.SetMapIndex(key, target)
	}
	value.Set(pairs)
	return nil
}
