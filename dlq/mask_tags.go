package dlq

import (
	"encoding/json"
	"slices"
	"strings"

	"dlqmanager/dlq/masking"
)

// maskTags are the tags of a rule.
type maskTags struct {
	names []string
	as    masking.Form
}

// TaggedPaths returns the paths to the values with one of the tags, in the JSON that a value or key decodes to. The error
// says why the paths are not known.
type TaggedPaths func(data []byte, tags []string) ([]masking.Path, error)

// headersOfSchemas are the beginnings of header names. Such a header tells the schema of a value or a key that has no
// prefix of SchemaPrefix bytes. These schemas are not read.
var headersOfSchemas = map[string][]string{
	"value": {"__value_schema_id", "apicurio.value."},
	"key":   {"__key_schema_id", "apicurio.key."},
}

// WithTags is the mask of a record whose schemas may tag parts of the record. A value or key is hidden as a whole if its
// tags are not known.
func (k *Mask) WithTags(r *Record, pathsOf TaggedPaths) *Mask {
	if len(k.tags) == 0 {
		return k
	}
	tagged := *k
	tagged.value, tagged.isValueEncoded = k.withTagged("value", r.Value, k.value, r.Headers, pathsOf)
	tagged.key, tagged.isKeyEncoded = k.withTagged("key", r.Key, k.key, r.Headers, pathsOf)
	return &tagged
}

// withTagged also reports whether parts are hidden that have another form in the JSON than in the bytes, such as numbers.
func (k *Mask) withTagged(
	part string, data []byte, targets []masking.Target, headers []Header, pathsOf TaggedPaths,
) (with []masking.Target, isEncoded bool) {
	_, hasSchema := SchemaIDOf(data)
	isForeign := slices.ContainsFunc(headers, func(h Header) bool {
		return slices.ContainsFunc(headersOfSchemas[part], func(name string) bool { return strings.HasPrefix(h.Key, name) })
	})
	if len(data) == 0 || !hasSchema && !isForeign {
		return targets, false
	}
	isEncoded = !hasSchema && !json.Valid(data)
	targets = slices.Clip(targets)
	for _, t := range k.tags {
		paths := []masking.Path{masking.Whole}
		if hasSchema {
			known, err := pathsOf(data, t.names)
			const longNumber = 8 // bytes; such a number only looks as if it had a schema
			isEncoded = isEncoded || err != nil && len(data) != longNumber || len(known) > 0
			if err == nil {
				paths = known
			}
		}
		for _, path := range paths {
			targets = append(targets, t.target(path))
		}
	}
	return targets, isEncoded
}

// target hides a whole value at least by the form Mask: the last characters of the value may be a short field, which the
// form Last4 would show.
func (t *maskTags) target(path masking.Path) masking.Target {
	if path.IsWhole() {
		return masking.Target{Path: path, As: masking.Stronger(masking.Mask, t.as)}
	}
	return masking.Target{Path: path, As: t.as}
}
