package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Redacted is the whole configuration with its defaults, as nested maps. Secrets are hidden, so that a program can log the
// configuration when it starts.
func (c *Config) Redacted() map[string]any { return redactSection(reflect.ValueOf(c).Elem()) }

func redactSection(structure reflect.Value) map[string]any {
	section := map[string]any{}
	for _, f := range keysOf(structure) {
		shown := redact(f.value)
		if f.tag.Get("log") == "no query" {
			shown, _, _ = strings.Cut(f.value.String(), "?")
		}
		section[f.path] = shown
	}
	return section
}

func redact(value reflect.Value) any {
	switch {
	case isSection(value):
		return redactSection(value)
	case value.Kind() == reflect.Map && value.Type().Elem().Kind() == reflect.Struct:
		entries := map[string]any{}
		for name, entry := range value.Seq2() {
			entries[name.String()] = redact(addressable(entry))
		}
		return entries
	}
	if text, ok := value.Interface().(fmt.Stringer); ok { // Secret, Duration, Size
		return text.String()
	}
	return value.Interface()
}
