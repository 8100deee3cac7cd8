package registry

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"dlqmanager/dlq"
	"dlqmanager/dlq/masking"
)

// A schema marks fields with tags, such as PII: within its text, as confluent:tags in Avro and JSON Schema and as the
// options confluent.field_meta and message_meta in Protobuf, or beside the text, in its metadata.

// inlineTags is the attribute of Avro and the keyword of JSON Schema.
const inlineTags = "confluent:tags"

// Tagged returns the paths of the values that a schema marks with one of the tags, in the JSON that data decodes to. A path may
// select more values than the schema does, and never less. The error says why the tags are not known.
func (d *Decoder) Tagged(ctx context.Context, data []byte, tags []string) ([]masking.Path, error) {
	id, ok := dlq.SchemaIDOf(data)
	if !ok {
		return nil, errNoPrefix
	}
	ctx, cancel := context.WithTimeout(ctx, d.o.Timeout)
	defer cancel()
	s, err := d.schema(ctx, id)
	if err != nil {
		return nil, err
	}
	var paths []masking.Path
	err = guard(reasonSchema, func() (err error) { paths, err = s.tagged(data[dlq.SchemaPrefix:], tags); return err })
	return paths, err
}

// tagger has the tags of a schema's metadata, and the paths that were asked for.
type tagger struct {
	metadata []metadataTags
	mu       sync.Mutex
	known    map[string][]masking.Path
}

type metadataTags struct {
	field *regexp.Regexp // matches the full name of a field
	last  *regexp.Regexp // matches its last name
	tags  []string
}

// anyRun are the wildcards in the metadata's names of fields: ** crosses dots, * and ? do not.
var anyRun = strings.NewReplacer(`\*\*`, `.*`, `\*`, `[^.]*`, `\?`, `[^.]`)

func newTagger(metadata map[string][]string) *tagger {
	t := &tagger{known: map[string][]masking.Path{}}
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		whole := func(pattern string) *regexp.Regexp {
			return regexp.MustCompile("(?s)^" + anyRun.Replace(regexp.QuoteMeta(pattern)) + "$")
		}
		t.metadata = append(t.metadata, metadataTags{whole(name), whole(name[strings.LastIndexByte(name, '.')+1:]), metadata[name]})
	}
	return t
}

// ofField are the tags of a field of a type in the metadata. A type without a name is one of JSON Schema, whose fields are
// matched by their last name: the place of a field is not known before the paths are.
func (t *tagger) ofField(typeName, field string) (tags []string) {
	for _, m := range t.metadata {
		if typeName == "" && m.last.MatchString(field) || typeName != "" && m.field.MatchString(typeName+"."+field) {
			tags = append(tags, m.tags...)
		}
	}
	return tags
}

func (s *schema) tagged(data []byte, tags []string) ([]masking.Path, error) {
	root := s.codec.rootOf(data)
	key := strings.Join(append(slices.Clone(tags), root), "\x00")
	s.tagger.mu.Lock()
	defer s.tagger.mu.Unlock()
	if paths, ok := s.tagger.known[key]; ok {
		return paths, nil
	}
	shape, err := s.codec.shape(root, s.tagger.ofField)
	if err != nil {
		return nil, err
	}
	paths := pathsOf(shape, tags)
	s.tagger.known[key] = paths
	return paths, nil
}

// shape is what a schema says about a place in the JSON of its values.
type shape struct {
	tags    []string
	same    []*shape // that describe the same place, such as the branches of a union
	members []member
}

// member is the shape of a member; with the name any, of every member or item.
type member struct {
	name string
	*shape
}

const anyName = ""

func (s *shape) add(name string, of *shape) { s.members = append(s.members, member{name, of}) }

// The limits of the paths of a schema. Beyond them fields are found by their names at any depth, and beyond maxTagged names
// values are hidden as a whole.
const (
	maxTagged = 100
	maxSteps  = 10_000
	maxPlace  = 24 // names of a path
)

// tagFinder looks for the paths to tagged shapes.
type tagFinder struct {
	wanted []string
	open   map[*shape]bool // on the way from the root, so that a type in itself ends the way
	paths  map[string]masking.Path
	steps  int
}

func pathsOf(root *shape, tags []string) []masking.Path {
	f := &tagFinder{wanted: tags, open: map[*shape]bool{}, paths: map[string]masking.Path{}}
	if f.walk(root, nil); f.isFull() {
		clear(f.paths)
		f.anywhere(root, nil)
	}
	if len(f.paths) > maxTagged {
		return []masking.Path{masking.Whole}
	}
	var paths []masking.Path
	for _, text := range slices.Sorted(maps.Keys(f.paths)) {
		paths = append(paths, f.paths[text])
	}
	return paths
}

func (f *tagFinder) isFull() bool { return f.steps > maxSteps || len(f.paths) > maxTagged }

// walk adds the paths from a shape at a place.
func (f *tagFinder) walk(s *shape, place []string) {
	f.steps++
	switch {
	case f.isFull():
	case f.has(s.tags):
		f.add(place...)
	case f.open[s] || len(place) > maxPlace:
		f.anywhere(s, place)
	default:
		f.open[s] = true
		for _, same := range s.same {
			f.walk(same, place)
		}
		for _, m := range s.members {
			f.walk(m.shape, append(place[:len(place):len(place)], masking.Literal(m.name)))
		}
		delete(f.open, s)
	}
}

// anywhere adds the names of the tagged members below a place, at any depth.
func (f *tagFinder) anywhere(from *shape, place []string) {
	if f.isHere(from, map[*shape]bool{}) {
		f.add(place...)
		return
	}
	seen := map[*shape]bool{}
	var visit func(s *shape)
	visit = func(s *shape) {
		if seen[s] {
			return
		}
		seen[s] = true
		for _, same := range s.same {
			visit(same)
		}
		for _, m := range s.members {
			if f.isHere(m.shape, map[*shape]bool{}) {
				f.add(append(place[:len(place):len(place)], "**", masking.Literal(m.name))...)
			}
			visit(m.shape)
		}
	}
	visit(from)
}

// isHere reports whether a shape, or one of the same place, is tagged.
func (f *tagFinder) isHere(s *shape, seen map[*shape]bool) bool {
	if seen[s] {
		return false
	}
	seen[s] = true
	return f.has(s.tags) || slices.ContainsFunc(s.same, func(same *shape) bool { return f.isHere(same, seen) })
}

func (f *tagFinder) has(tags []string) bool {
	return slices.ContainsFunc(tags, func(tag string) bool { return slices.Contains(f.wanted, tag) })
}

func (f *tagFinder) add(place ...string) {
	path := masking.Whole
	if len(place) > 0 {
		if parsed, err := masking.ParsePath(strings.Join(place, ".")); err == nil {
			path = parsed
		}
	}
	f.paths[path.String()] = path
}
