package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// field is one key: its path and its value.
type field struct {
	path  string
	value reflect.Value
}

// fieldsOf lists every key below a pointer to a struct. Names come from the yaml tags,
// so a new field is at once a key of the file, a variable, and part of the logged
// configuration.
func fieldsOf(target any) []field {
	return appendFields(nil, "", reflect.ValueOf(target).Elem())
}

func appendFields(fields []field, prefix string, structure reflect.Value) []field {
	for i := range structure.NumField() {
		name := structure.Type().Field(i).Tag.Get("yaml")
		if name == "" {
			continue
		}
		if prefix != "" {
			name = prefix + "." + name
		}
		value := structure.Field(i)
		if isSection(value) {
			fields = appendFields(fields, name, value)
		} else {
			fields = append(fields, field{path: name, value: value})
		}
	}
	return fields
}

// isSection distinguishes a nested section from a value. Structs that parse text, such
// as Secret, are values.
func isSection(value reflect.Value) bool {
	_, isText := value.Addr().Interface().(encoding.TextUnmarshaler)
	return value.Kind() == reflect.Struct && !isText
}

// setText parses a value from text.
func setText(value reflect.Value, text string) error {
	if target, ok := value.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return target.UnmarshalText([]byte(text))
	}
	switch target := value.Addr().Interface().(type) {
	case *string:
		*target = text
	case *int:
		n, err := strconv.ParseInt(text, 10, strconv.IntSize)
		if err != nil {
			return fmt.Errorf("must be a whole number that fits, not %q", text)
		}
		*target = int(n)
	case **bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("must be true or false, not %q", text)
		}
		*target = &b
	case *[]string:
		items := strings.Split(text, ",")
		for i, item := range items {
			if items[i] = strings.TrimSpace(item); items[i] == "" {
				return fmt.Errorf("has an empty entry in %q", text)
			}
		}
		*target = items
	case *map[string]string:
		pairs := map[string]string{}
		for item := range strings.SplitSeq(text, ",") {
			key, val, found := strings.Cut(item, "=")
			key, val = strings.TrimSpace(key), strings.TrimSpace(val)
			if !found || key == "" || val == "" {
				return fmt.Errorf("must be key=value pairs separated by commas; %q is not one", item)
			}
			if _, twice := pairs[key]; twice {
				return fmt.Errorf("names %q twice", key)
			}
			pairs[key] = val
		}
		*target = pairs
	default:
		panic(fmt.Sprintf("config: no way to read a %s", value.Type()))
	}
	return nil
}

// nearest returns the candidate with the fewest changes to text, or "" if none is
// close.
func nearest(text string, candidates []string) string {
	best, distance := "", len(text)/3+1
	for _, candidate := range candidates {
		if d := editDistance(text, candidate); d <= distance && (d < distance || best == "") {
			best, distance = candidate, d
		}
	}
	return best
}

// editDistance is the number of bytes that must be inserted, removed or changed.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
