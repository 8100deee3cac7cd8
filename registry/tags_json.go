package registry

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

func (*jsonSchema) rootOf([]byte) string { return "" }

// shape reads the keywords that lead to values, of all drafts at once, and also those beside a reference, which older drafts
// ignore. A reference that cannot be followed is an error: what it leads to may have tags.
func (j *jsonSchema) shape(_ string, tagsOf func(typeName, field string) []string) (*shape, error) {
	g := jsonShapes{tagsOf: tagsOf, known: map[string]*shape{}, named: map[string][]jsonPlace{}}
	documents := make([]jsonPlace, len(j.sources)) // the last is the schema itself
	for i, s := range j.sources {
		node, err := parseJSON([]byte(s.text))
		if err != nil {
			return nil, err
		}
		documents[i] = jsonPlace{pointer: strconv.Itoa(i), node: node}
		documents[i].base = &documents[i]
		g.named[s.name] = append(g.named[s.name], documents[i])
		g.collect(documents[i])
	}
	return g.of(documents[len(documents)-1]), g.err
}

// jsonPlace is a part of a schema.
type jsonPlace struct {
	pointer string // with the number of the document before it
	node    any
	base    *jsonPlace // the part around it that has an identifier, to which references without one are relative
}

// below is the part with a name, or with an index of a list. Its node is nil if there is none.
func (p *jsonPlace) below(name string) jsonPlace {
	b := jsonPlace{pointer: p.pointer + "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1"), base: p.base}
	switch node := p.node.(type) {
	case map[string]any:
		b.node = node[name]
	case []any:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(node) {
			b.node = node[i]
		}
	}
	if idOf := identifierOf(b.node); idOf != "" {
		b.base = &jsonPlace{pointer: b.pointer, node: b.node}
		b.base.base = b.base
	}
	return b
}

func (p *jsonPlace) each(visit func(name string, part jsonPlace)) {
	switch node := p.node.(type) {
	case map[string]any:
		for name := range node {
			visit(name, p.below(name))
		}
	case []any:
		for i := range node {
			visit(strconv.Itoa(i), p.below(strconv.Itoa(i)))
		}
	}
}

// identifierOf is empty for the anchors of older drafts, which are written as identifiers.
func identifierOf(node any) string {
	keywords, _ := node.(map[string]any)
	for _, keyword := range []string{"$id", "id"} {
		if text, ok := keywords[keyword].(string); ok && !strings.HasPrefix(text, "#") {
			return strings.TrimSuffix(text, "#")
		}
	}
	return ""
}

// jsonShapes makes the shapes of JSON Schemas.
type jsonShapes struct {
	tagsOf func(typeName, field string) []string
	known  map[string]*shape      // by pointers
	named  map[string][]jsonPlace // by names of references, identifiers, and anchors with #
	err    error                  // the first
}

// collect finds the identifiers and anchors of a document.
func (g *jsonShapes) collect(p jsonPlace) {
	if id := identifierOf(p.node); id != "" {
		g.named[id] = append(g.named[id], p)
	}
	keywords, _ := p.node.(map[string]any)
	for _, keyword := range []string{"$anchor", "$dynamicAnchor", "$id", "id"} {
		if text, ok := keywords[keyword].(string); ok && (strings.HasPrefix(text, "#") || strings.HasSuffix(keyword, "nchor")) {
			anchor := "#" + strings.TrimPrefix(text, "#")
			g.named[anchor] = append(g.named[anchor], p)
		}
	}
	p.each(func(_ string, part jsonPlace) { g.collect(part) })
}

// The keywords whose schemas describe the same place, and those that describe its members and items without a name.
var (
	sameKeywords = []string{"allOf", "anyOf", "oneOf", "if", "then", "else", "not", "dependentSchemas", "dependencies", "contentSchema"}
	anyKeywords  = []string{
		"items", "prefixItems", "additionalItems", "unevaluatedItems", "contains",
		"patternProperties", "additionalProperties", "unevaluatedProperties",
	}
	listedKeywords = []string{"allOf", "anyOf", "oneOf", "prefixItems", "patternProperties", "dependentSchemas", "dependencies"}
	references     = []string{"$ref", "$dynamicRef", "$recursiveRef"}
)

func (g *jsonShapes) of(p jsonPlace) *shape {
	if s := g.known[p.pointer]; s != nil {
		return s
	}
	keywords, _ := p.node.(map[string]any)
	s := &shape{tags: tagsIn(keywords)}
	g.known[p.pointer] = s
	schemasOf := func(keyword string, visit func(*shape)) {
		part := p.below(keyword)
		if _, isList := part.node.([]any); isList || slices.Contains(listedKeywords, keyword) {
			part.each(func(_ string, schema jsonPlace) { visit(g.of(schema)) })
		} else if part.node != nil {
			visit(g.of(part))
		}
	}
	for _, keyword := range sameKeywords {
		schemasOf(keyword, func(of *shape) { s.same = append(s.same, of) })
	}
	for _, keyword := range anyKeywords {
		schemasOf(keyword, func(of *shape) { s.add(anyName, of) })
	}
	properties := p.below("properties")
	properties.each(func(name string, schema jsonPlace) {
		s.add(name, &shape{tags: g.tagsOf("", name), same: []*shape{g.of(schema)}})
	})
	for _, keyword := range references {
		if to, ok := keywords[keyword].(string); ok {
			g.follow(s, &p, to)
		}
	}
	return s
}

// follow adds all schemas that a reference may lead to.
func (g *jsonShapes) follow(s *shape, from *jsonPlace, reference string) {
	document, fragment, _ := strings.Cut(reference, "#")
	var targets []jsonPlace
	switch {
	case fragment != "" && fragment[0] != '/':
		targets = g.named["#"+fragment]
	case document == "":
		targets = []jsonPlace{*from.base}
	default:
		for name, places := range g.named {
			if name == document || strings.HasSuffix(name, "/"+document) || name != "" && strings.HasSuffix(document, "/"+name) {
				targets = append(targets, places...)
			}
		}
	}
	isFound := false
	for _, target := range targets {
		if fragment != "" && fragment[0] == '/' {
			target = pointed(target, fragment)
		}
		if target.node != nil {
			isFound = true
			s.same = append(s.same, g.of(target))
		}
	}
	if !isFound && g.err == nil {
		g.err = badSchema("%.200q is not among its references", reference)
	}
}

// pointed is the part that a JSON pointer leads to.
func pointed(p jsonPlace, pointer string) jsonPlace {
	for _, name := range strings.Split(pointer, "/")[1:] {
		if plain, err := url.PathUnescape(name); err == nil {
			name = plain
		}
		p = p.below(strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~"))
	}
	return p
}
