package registry

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"dlqmanager/dlq"
)

// jsonSchema is the codec of a JSON Schema. A value that is decoded need not conform to it: the
// consumer may have failed on that. An edited one must.
type jsonSchema struct {
	sources []*source
}

func (*jsonSchema) decode(into *dlq.Decoded, data []byte) error {
	if !json.Valid(data) {
		return badValue("its schema is a JSON Schema, but it is not JSON")
	}
	into.JSON = data
	into.TraceID, into.CorrelationID = metadataOf(data)
	return nil
}

// encode keeps the JSON as it was sent.
func (j *jsonSchema) encode(_ []byte, edited json.RawMessage) ([]byte, error) {
	return edited, j.reads(j, edited)
}

func (j *jsonSchema) reads(_ codec, data []byte) error {
	value, err := parseJSON(data)
	if err != nil {
		return err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft7) // as Confluent's serializers
	compiler.UseLoader(j)
	countSteps(compiler)
	schema, err := compiler.Compile(rootSchema)
	if err != nil {
		return badSchema("its JSON Schema cannot be used: %s", short(err))
	}
	var invalid *jsonschema.ValidationError
	if err := schema.Validate(value); errors.As(err, &invalid) {
		_, text, _ := strings.Cut(short(invalid), "\n- ") // the first line names the schema
		return badValue("it does not conform to its JSON Schema: %s", strings.ReplaceAll(text, "\n", "; "))
	} else if err != nil {
		return badValue("it cannot be checked: %s", short(err))
	}
	return nil
}

// maxJSONSteps limits the time of a validation: schemas that refer to each other can double it at
// each step.
const maxJSONSteps = 1 << 20

// countSteps counts in the check of each schema's format, which comes before all schemas below. The
// library cannot be cancelled, so a panic ends it, which guard recovers.
func countSteps(compiler *jsonschema.Compiler) {
	left := maxJSONSteps
	compiler.RegisterVocabulary(&jsonschema.Vocabulary{
		URL: "registry:///steps",
		Compile: func(ctx *jsonschema.CompilerContext, _ map[string]any) (jsonschema.SchemaExt, error) {
			schema := ctx.Enqueue(nil) // the one that is being compiled
			format := schema.Format
			if format == nil {
				format = &jsonschema.Format{Validate: func(any) error { return nil }}
			}
			schema.Format = &jsonschema.Format{Name: format.Name, Validate: func(v any) error {
				if left--; left < 0 {
					panic(&failure{reasonTooLarge, "its JSON Schema takes too many steps"})
				}
				return format.Validate(v)
			}}
			return nil, nil //nolint:nilnil // so the library wants it if there is nothing to extend
		},
	})
	compiler.AssertVocabs()
}

// rootSchema is the URL of the schema itself. The registry gives it no name.
const rootSchema = "registry:///schema"

// Load returns the schema that a reference names, which may have been resolved against the
// identifier of another one. Nothing else is loaded.
func (j *jsonSchema) Load(url string) (any, error) {
	last := len(j.sources) - 1
	if url == rootSchema {
		return parseJSON([]byte(j.sources[last].text))
	}
	for _, s := range j.sources[:last] {
		if url == s.name || strings.HasSuffix(url, "/"+s.name) {
			return parseJSON([]byte(s.text))
		}
	}
	return nil, badSchema("%.200q is not among its references", url)
}
