package config

import (
	"fmt"
	"reflect"
)

// Redacted is the whole configuration, including defaults, as nested maps by the names
// of the keys. Secrets are hidden, so that a program can log it when it starts.
func (c *Config) Redacted() map[string]any { return redactSection(reflect.ValueOf(c).Elem()) }

func redactSection(structure reflect.Value) map[string]any {
	section := map[string]any{}
	for i := range structure.NumField() {
		name := structure.Type().Field(i).Tag.Get("yaml")
		if name == "" {
			continue
		}
		value := structure.Field(i)
		if isSection(value) {
			section[name] = redactSection(value)
			continue
		}
		switch v := value.Interface().(type) {
		case fmt.Stringer: // Secret, Duration, Size
			section[name] = v.String()
		case *bool:
			if v != nil {
				section[name] = *v
			}
		default:
			section[name] = v
		}
	}
	return section
}
