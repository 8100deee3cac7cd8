package registry

import (
	"encoding/json"
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"dlqmanager/dlq"
)

// jsonSchema is the codec of a JSON Schema. A decoded value need not conform to the schema, since the
// consumer may have failed for that reason. An edited value must conform.
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
		most := 10
		cutCauses(invalid, &most)
		_, text, _ := strings.Cut(short(invalid), "\n- ") // the first line names the schema
		return badValue("it does not conform to its JSON Schema: %s", strings.ReplaceAll(text, "\n", "; "))
	} else if err != nil {
		return badValue("it cannot be checked: %s", short(err))
	}
	return nil
}

// A validation is limited in its steps, and also in its time, since some steps take longer. Schemas that
// refer to each other can double the work at each level.
const (
	maxJSONSteps = 1 << 20
	maxJSONTime  = time.Second
)

// jsonSteps counts the steps of a validation. The library cannot be cancelled, so a panic ends it,
// which guard recovers.
type jsonSteps struct {
	left int
	end  time.Time
}

func (s *jsonSteps) take(n int) {
	if s.left -= n; s.left < 0 || time.Now().After(s.end) {
		panic(&failure{reasonTooLarge, "its JSON Schema takes too many steps"})
	}
}

// countSteps counts a step when the format of a schema is checked, which happens before the schemas below
// are checked. It also counts the steps of each match of a pattern.
func countSteps(compiler *jsonschema.Compiler) {
	steps := &jsonSteps{maxJSONSteps, time.Now().Add(maxJSONTime)}
	compiler.RegisterVocabulary(&jsonschema.Vocabulary{
		URL: "registry:///steps",
		Compile: func(ctx *jsonschema.CompilerContext, _ map[string]any) (jsonschema.SchemaExt, error) {
			schema := ctx.Enqueue(nil) // the schema that is being compiled
			format := schema.Format
			if format == nil {
				format = &jsonschema.Format{Validate: func(any) error { return nil }}
			}
			schema.Format = &jsonschema.Format{Name: format.Name, Validate: func(v any) error {
				steps.take(1)
				return format.Validate(v)
			}}
			if schema.Enum != nil { // the library would check it before the format
				schema.AllOf = append(schema.AllOf, &jsonschema.Schema{DraftVersion: schema.DraftVersion, Enum: schema.Enum})
				schema.Enum = nil
			}
			return nil, nil //nolint:nilnil // the library asks for this if there is no extension
		},
	})
	compiler.AssertVocabs()
	compiler.UseRegexpEngine(func(text string) (jsonschema.Regexp, error) {
		parsed, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			return nil, err
		}
		program, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			return nil, err
		}
		compiled, err := regexp.Compile(text)
		return &countedRegexp{compiled, steps, len(program.Inst)}, err
	})
}

// countedRegexp is a pattern. The time of a match grows at most with the product of the sizes of pattern and text.
type countedRegexp struct {
	*regexp.Regexp

	steps *jsonSteps
	size  int
}

func (r *countedRegexp) MatchString(text string) bool {
	const inOneStep = 256
	r.steps.take(1 + r.size*len(text)/inOneStep)
	return r.Regexp.MatchString(text)
}

// cutCauses keeps the first causes of an error, because the text of all causes could be huge.
func cutCauses(e *jsonschema.ValidationError, left *int) {
	for i, cause := range e.Causes {
		if *left--; *left < 0 {
			e.Causes = e.Causes[:i]
			return
		}
		cutCauses(cause, left)
	}
}

// rootSchema is the URL of the schema itself. The registry gives it no name.
const rootSchema = "registry:///schema"

// Load returns the schema that a reference names. The library may have resolved the reference against
// the identifier of another schema. Nothing else is loaded.
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
