package dlq

import (
	"slices"

	"dlqmanager/dlq/masking"
)

// maskTags are the tags of a rule.
type maskTags struct {
	names []string
	as    masking.Form
}

// TaggedPaths returns the paths to the values with one of the tags, in the JSON that a value or key decodes to. The error
// says why they are not known.
type TaggedPaths func(data []byte, tags []string) ([]masking.Path, error)

// headersOfSchemas name the schema of a value or a key that has no prefix. Such schemas are not read.
var headersOfSchemas = map[string][]string{
	"value": {"__value_schema_id", "apicurio.value.globalId", "apicurio.value.contentId"},
	"key":   {"__key_schema_id", "apicurio.key.globalId", "apicurio.key.contentId"},
}

// WithTags is the mask of a record whose schemas may tag parts of the record. A value or key is hidden as a whole if its
// tags are not known.
func (k *Mask) WithTags(r *Record, pathsOf TaggedPaths) *Mask {
	if len(k.tags) == 0 {
		return k
	}
	tagged := *k
	tagged.value = k.withTagged("value", r.Value, k.value, r.Headers, pathsOf)
	tagged.key = k.withTagged("key", r.Key, k.key, r.Headers, pathsOf)
	return &tagged
}

func (k *Mask) withTagged(part string, data []byte, targets []masking.Target, headers []Header, pathsOf TaggedPaths) []masking.Target {
	_, hasSchema := SchemaIDOf(data)
	isForeign := slices.ContainsFunc(headers, func(h Header) bool { return slices.Contains(headersOfSchemas[part], h.Key) })
	if !hasSchema && !isForeign {
		return targets
	}
	targets = slices.Clip(targets)
	for _, t := range k.tags {
		paths := []masking.Path{masking.Whole}
		if hasSchema {
			if known, err := pathsOf(data, t.names); err == nil {
				paths = known
			}
		}
		for _, path := range paths {
			targets = append(targets, masking.Target{Path: path, As: t.as})
		}
	}
	return targets
}
