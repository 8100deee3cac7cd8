package registry

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"dlqmanager/dlq"
	"dlqmanager/dlq/masking"
)

// A schema marks fields with tags, such as PII. The tags are in the schema's text or in its metadata. In the text,
// Avro and JSON Schema have confluent:tags, and Protobuf has the options confluent.field_meta and message_meta.

// inlineTags is an attribute of Avro and a keyword of JSON Schema.
const inlineTags = "confluent:tags"

// Tagged returns paths in the JSON that data decodes to. They select every value that the schema marks with one of the tags,
// and may select further values. The error says why the tags are not known.
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
	err = guard(reasonSchema, func() (err error) { paths, err = s.tagged(ctx, data[dlq.SchemaPrefix:], tags); return err })
	return paths, err
}

// tagger has the tags of a schema's metadata, and the paths that were asked for.
type tagger struct {
	metadata map[string][]string // tags by patterns of full names of fields
	left     int                 // the steps that are left of maxMatching
	mu       sync.Mutex
	shapes   map[string]*shape // nil before they are computed
	err      error             // why they cannot be computed
	known    map[string][]masking.Path
}

const (
	// maxMatching limits the characters that are compared with patterns of the metadata. Each comparison of a name costs
	// matchCost further characters.
	maxMatching = 1 << 26
	matchCost   = 16
	// maxKnown limits the roots and tags whose paths are kept.
	maxKnown = 100
)

func newTagger(metadata map[string][]string) *tagger {
	t := &tagger{metadata: map[string][]string{}, left: maxMatching, known: map[string][]masking.Path{}}
	for pattern, tags := range metadata {
		pattern = strings.ReplaceAll(pattern, "**.*", "**") // as Confluent does
		t.metadata[pattern] = append(t.metadata[pattern], tags...)
	}
	return t
}

// ofField returns the tags that the metadata has for a field of a type. Types of JSON Schema have no name, and the place of
// their fields is not known yet. So only the last part of a pattern is compared, with the last part of the field's name.
func (t *tagger) ofField(typeName, field string) (tags []string) {
	name := []rune(typeName + "." + field)
	if typeName == "" {
		name = []rune(field[strings.LastIndexByte(field, '.')+1:])
	}
	for pattern, of := range t.metadata {
		if t.left -= matchCost; t.left < 0 {
			return nil
		}
		if typeName == "" {
			pattern = pattern[max(strings.LastIndexByte(pattern, '.')+1, strings.LastIndex(pattern, "**")):]
		}
		if t.matches(pattern, name) {
			tags = append(tags, of...)
		}
	}
	return tags
}

// matches compares a name with a pattern: ** stands for any characters, * for any characters but dots, and ? for one such character.
func (t *tagger) matches(pattern string, name []rune) bool {
	if !strings.ContainsAny(pattern, "*?") {
		return pattern == string(name)
	}
	ends := make([]bool, len(name)+1) // ends[i] says whether the pattern so far matches the first i characters
	ends[0] = true
	for pattern != "" {
		if t.left -= len(ends) + matchCost; t.left < 0 || !slices.Contains(ends, true) {
			return false
		}
		c, size := utf8.DecodeRuneInString(pattern)
		crossesDots := strings.HasPrefix(pattern, "**")
		if crossesDots {
			size = len("**")
		}
		pattern = pattern[size:]
		if c == '*' {
			for i, r := range name {
				ends[i+1] = ends[i+1] || ends[i] && (crossesDots || r != '.')
			}
			continue
		}
		for i := len(name); i > 0; i-- {
			ends[i] = ends[i-1] && (name[i-1] == c || c == '?' && name[i-1] != '.')
		}
		ends[0] = false
	}
	return ends[len(name)]
}

// tagged computes nothing after the end of ctx, since each message of a list may have another root, and each root
// takes time.
func (s *schema) tagged(ctx context.Context, data []byte, tags []string) ([]masking.Path, error) {
	root := s.codec.rootOf(data)
	key := strings.Join(append(slices.Clone(tags), root), "\x00")
	t := s.tagger
	t.mu.Lock()
	defer t.mu.Unlock()
	if paths, ok := t.known[key]; ok {
		return paths, nil
	}
	if ctx.Err() != nil {
		return nil, errTimeout
	}
	if t.shapes == nil && t.err == nil {
		if t.shapes, t.err = s.codec.shapes(t.ofField); t.left < 0 {
			t.err = &failure{reasonTooLarge, "the tags of its metadata take too many steps"}
		}
	}
	if t.err != nil {
		return nil, t.err
	}
	shape := t.shapes[root]
	if shape == nil {
		return nil, badValue("it names no message of its schema")
	}
	if len(t.known) >= maxKnown {
		clear(t.known)
	}
	t.known[key] = pathsOf(shape, tags)
	return t.known[key], nil
}

// shape is what a schema says about a place in the JSON of its values.
type shape struct {
	tags    []string
	same    []*shape // shapes of the same place, such as the branches of a union
	members []member
	isText  bool // the JSON has no places for the members, so a tag of a member hides the whole text
}

// member is the shape of a member of an object. With the name anyName, it is the shape of every member or
// item.
type member struct {
	name string // as in a path
	*shape
}

const anyName = ""

func (s *shape) add(name string, of *shape) {
	s.members = append(s.members, member{masking.Literal(name), of})
}

// The limits of the paths of a schema. If they are exceeded, tagged fields are selected by their names at any depth. If
// there are more than maxTagged names, values are hidden as a whole.
const (
	maxTagged = 100
	maxSteps  = 10_000
	maxPlace  = 24 // names of a path
)

// tagFinder looks for the paths to tagged shapes.
type tagFinder struct {
	wanted []string
	open   map[*shape]bool // the shapes from the root to here, so that the walk ends at a type that contains itself
	paths  map[string]masking.Path
	left   int // steps
}

func pathsOf(root *shape, tags []string) []masking.Path {
	f := &tagFinder{wanted: tags, open: map[*shape]bool{}, paths: map[string]masking.Path{}, left: maxSteps}
	if f.walk(root, nil); f.isFull() {
		clear(f.paths)
		f.left = 10 * maxSteps
		f.anywhere(root, nil)
	}
	if f.isFull() {
		return []masking.Path{masking.Whole}
	}
	var paths []masking.Path
	for _, text := range slices.Sorted(maps.Keys(f.paths)) {
		paths = append(paths, f.paths[text])
	}
	return paths
}

func (f *tagFinder) isFull() bool { return f.left < 0 || len(f.paths) > maxTagged }

// walk adds the paths from a shape at a place.
func (f *tagFinder) walk(s *shape, place []string) {
	f.left--
	switch {
	case f.isFull():
	case f.has(s.tags):
		f.add(place...)
	case s.isText || f.open[s] || len(place) > maxPlace:
		f.anywhere(s, place)
	default:
		f.open[s] = true
		for _, same := range s.same {
			f.walk(same, place)
		}
		for _, m := range s.members {
			f.walk(m.shape, append(slices.Clip(place), m.name))
		}
		delete(f.open, s)
	}
}

// anywhere adds the names of the tagged members below a place, at any depth.
func (f *tagFinder) anywhere(from *shape, place []string) {
	type visited struct {
		*shape

		as     *member // nil at the place itself
		isText bool
	}
	seen := map[visited]bool{}
	var visit func(v visited)
	visit = func(v visited) {
		v.isText = v.isText || v.shape.isText
		if f.isFull() || seen[v] {
			return
		}
		seen[v] = true
		f.left--
		switch {
		case f.has(v.tags) && v.as == nil:
			f.add(place...)
			return
		case f.has(v.tags):
			f.add(append(slices.Clip(place), "**", v.as.name)...)
			return
		}
		for _, same := range v.same {
			visit(visited{same, v.as, v.isText})
		}
		for i := range v.members {
			as := &v.members[i]
			if v.isText {
				as = v.as
			}
			visit(visited{v.members[i].shape, as, v.isText})
		}
	}
	visit(visited{shape: from})
}

func (f *tagFinder) has(tags []string) bool {
	return slices.ContainsFunc(tags, func(tag string) bool { return slices.Contains(f.wanted, tag) })
}

func (f *tagFinder) add(place ...string) {
	path, err := masking.ParsePath(strings.Join(place, "."))
	if err != nil { // a path to the root has no text either
		path = masking.Whole
	}
	f.paths[path.String()] = path
}
