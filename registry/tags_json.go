package registry

import (
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

func (*jsonSchema) rootOf([]byte) string { return "" }

// shapes reads the keywords with schemas of all drafts. It also reads the keywords beside a reference, which older drafts
// ignore. A reference that cannot be followed is an error, since its target may have tags.
func (j *jsonSchema) shapes(tagsOf func(typeName, field string) []string) (map[string]*shape, error) {
	g := jsonShapes{tagsOf: tagsOf, known: map[uintptr]*shape{}, followed: map[string]*shape{}, named: map[string][]jsonPlace{}}
	var document jsonPlace // after the loop, the schema itself
	for _, s := range j.sources {
		node, err := parseJSON([]byte(s.text))
		if err != nil {
			return nil, err
		}
		document = jsonPlace{node: node, bases: []any{node}}
		if s.name != "" {
			g.named[lastName(s.name)] = append(g.named[lastName(s.name)], document)
		}
		g.collect(document)
	}
	return map[string]*shape{"": g.of(document)}, g.err
}

// jsonPlace is a part of a schema.
type jsonPlace struct {
	node any
	// bases are the document, and the parts with identifiers around this part. A reference without a document is relative to
	// one of the bases. Which base it is depends on the draft.
	bases []any
}

// below returns the part with a name, or with an index of a list. The node of the result is nil if there is
// no such part.
func (p jsonPlace) below(name string) jsonPlace {
	b := jsonPlace{bases: p.bases}
	switch node := p.node.(type) {
	case map[string]any:
		b.node = node[name]
	case []any:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(node) {
			b.node = node[i]
		}
	}
	for _, id := range identifiersOf(b.node) {
		if id[0] != '#' { // otherwise it is an anchor
			b.bases = append(slices.Clip(p.bases), b.node)
		}
	}
	return b
}

func (p jsonPlace) each(visit func(name string, part jsonPlace)) {
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

func identifiersOf(node any) (ids []string) {
	keywords, _ := node.(map[string]any)
	for _, keyword := range []string{"$id", "id"} {
		if id, _ := keywords[keyword].(string); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// lastName returns the part of a URL behind its last slash. This part stays the same when a relative URL is
// resolved.
func lastName(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }

// jsonShapes makes the shapes of JSON Schemas.
type jsonShapes struct {
	tagsOf   func(typeName, field string) []string
	known    map[uintptr]*shape     // by the address of the map with the schema's keywords
	followed map[string]*shape      // by the text of the reference
	named    map[string][]jsonPlace // by the lastName of a document, or by # and an anchor
	targets  int                    // the number of targets of all references
	err      error                  // the first error
}

// maxTargets limits the places that references lead to.
const maxTargets = 100_000

// collect finds the identifiers and anchors of a document.
func (g *jsonShapes) collect(p jsonPlace) {
	keywords, _ := p.node.(map[string]any)
	add := func(name string) { g.named[name] = append(g.named[name], p) }
	for _, id := range identifiersOf(p.node) {
		document, anchor, _ := strings.Cut(id, "#")
		if document != "" {
			add(lastName(document))
		}
		if anchor != "" {
			add("#" + anchor)
		}
	}
	for _, keyword := range []string{"$anchor", "$dynamicAnchor"} {
		if anchor, ok := keywords[keyword].(string); ok {
			add("#" + anchor)
		}
	}
	if keywords["$recursiveAnchor"] == true {
		add("$recursiveAnchor")
	}
	p.each(func(_ string, part jsonPlace) { g.collect(part) })
}

// The schemas of sameKeywords describe the same place as the schema around them. The schemas of anyKeywords describe
// members and items without a name.
var (
	sameKeywords = []string{
		"allOf", "anyOf", "oneOf", "if", "then", "else", "not", "dependentSchemas", "dependencies", "propertyNames",
		"type", "extends", "disallow", // of draft 3
	}
	anyKeywords = []string{
		"items", "prefixItems", "additionalItems", "unevaluatedItems", "contains",
		"patternProperties", "additionalProperties", "unevaluatedProperties",
	}
	listedKeywords = []string{"allOf", "anyOf", "oneOf", "prefixItems", "patternProperties", "dependentSchemas", "dependencies"}
	references     = []string{"$ref", "$dynamicRef", "$recursiveRef"}
)

func (g *jsonShapes) of(p jsonPlace) *shape {
	keywords, ok := p.node.(map[string]any)
	if !ok {
		return &shape{}
	}
	address := reflect.ValueOf(keywords).Pointer()
	if s := g.known[address]; s != nil {
		return s
	}
	s := &shape{tags: tagsIn(keywords)}
	g.known[address] = s
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
	schemasOf("contentSchema", func(of *shape) { s.same = append(s.same, &shape{isText: true, same: []*shape{of}}) })
	p.below("properties").each(func(name string, schema jsonPlace) {
		s.add(name, &shape{tags: g.tagsOf("", name), same: []*shape{g.of(schema)}})
	})
	for _, keyword := range references {
		if to, ok := keywords[keyword].(string); ok {
			s.same = append(s.same, g.follow(p, to))
		}
	}
	if keywords["$recursiveRef"] != nil && g.named["$recursiveAnchor"] != nil {
		s.same = append(s.same, g.follow(p, "$recursiveAnchor"))
	}
	return s
}

// follow returns the shape of all schemas that a reference may lead to.
func (g *jsonShapes) follow(from jsonPlace, reference string) *shape {
	document, fragment, _ := strings.Cut(reference, "#")
	isPointer := fragment == "" || fragment[0] == '/'
	s := &shape{}
	var targets []jsonPlace
	if document == "" && isPointer {
		for i := range from.bases {
			targets = append(targets, jsonPlace{from.bases[i], from.bases[:i+1]})
		}
	} else {
		if known := g.followed[reference]; known != nil {
			return known
		}
		g.followed[reference] = s
		if targets = g.named[lastName(document)]; !isPointer {
			targets = g.named["#"+fragment]
		}
	}
	if g.targets += len(targets); g.targets > maxTargets {
		g.err = &failure{reasonTooLarge, "its references lead to too many places"}
		return s
	}
	isFound := false
	for _, target := range targets {
		if isPointer {
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
	return s
}

// pointed returns the part that a JSON pointer leads to.
func pointed(p jsonPlace, pointer string) jsonPlace {
	for _, name := range strings.Split(pointer, "/")[1:] {
		if plain, err := url.PathUnescape(name); err == nil {
			name = plain
		}
		p = p.below(strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~"))
	}
	return p
}
