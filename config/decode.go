package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// decoder sets the fields of the struct from the YAML nodes of the file. The YAML library does not fill the struct. Nodes have
// line numbers, so all problems are reported together with line and key. No value is converted silently.
type decoder struct {
	*report
	file string
}

// decodeFile sets every key of the file.
func (r *report) decodeFile(c *Config, file string, data []byte) {
	d := &decoder{r, file}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		d.add(lineOfInvalidUTF8(data), "", "is not UTF-8 text")
		return
	}
	reader := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	if err := reader.Decode(&document); err != nil {
		if !errors.Is(err, io.EOF) {
			d.syntax(err)
		}
		return
	}
	if err := reader.Decode(&second); err == nil {
		d.add(second.Line, "", "starts a second YAML document; only one is read")
	} else if !errors.Is(err, io.EOF) {
		d.syntax(err)
	}
	d.value("", document.Content[0], reflect.ValueOf(c).Elem())
}

func (d *decoder) add(line int, path, format string, args ...any) {
	d.report.add(d.at(line), path, format, args...)
}

func (d *decoder) at(line int) source { return source{file: d.file, line: line} }

var syntaxLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// syntax reports an error of the YAML library, with its line if the error names it.
func (d *decoder) syntax(err error) {
	text := err.Error()
	line := 0
	if match := syntaxLine.FindStringSubmatch(text); match != nil {
		line, _ = strconv.Atoi(match[1])
		text = strings.TrimPrefix(text, match[0])
	}
	if strings.Contains(text, "cannot start any token") {
		text += " (YAML does not allow tabs for indentation)"
	}
	if strings.Contains(text, "unknown anchor") { // the anchor's name may be a secret
		text = "a value refers to an unknown anchor; put a value that begins with * in quotes"
	}
	d.add(max(line, 1), "", "malformed YAML: %s", text)
}

// value reads a node. A null leaves the default: in a template a key may have no value, and all keys of a section may be
// commented out.
func (d *decoder) value(path string, node *yaml.Node, target reflect.Value) {
	node = resolveAlias(node)
	isMap := target.Kind() == reflect.Map
	switch {
	case isNull(node) && node.Anchor != "":
		d.add(node.Line, path, "is an anchor without a value; put a value that begins with & in quotes")
	case isNull(node):
	case (isMap || isSection(target)) && node.Kind != yaml.MappingNode:
		d.add(node.Line, path, "must be a section of keys and values, not %s", describe(node))
	case isSection(target):
		d.section(path, node, target)
	case isMap:
		d.sources[path] = d.at(node.Line)
		d.mapping(path, node, target)
	case target.Kind() == reflect.Slice && node.Kind == yaml.SequenceNode:
		d.sources[path] = d.at(node.Line)
		d.list(path, node, target)
	default:
		d.sources[path] = d.at(node.Line)
		d.scalar(path, node, target)
	}
}

func (d *decoder) section(path string, node *yaml.Node, target reflect.Value) {
	fields := map[string]field{}
	var names []string
	for _, f := range keysOf(target) {
		fields[f.path], names = f, append(names, f.path)
	}
	d.pairs(path, node, func(key, value *yaml.Node, keyPath string) {
		f, known := fields[key.Value]
		if !known {
			d.add(key.Line, keyPath, "unknown key%s", suggestion(key.Value, names))
			return
		}
		value = resolveAlias(value)
		isEmpty := isNull(value) || value.Kind == yaml.SequenceNode && len(value.Content) == 0
		if advice := f.tag.Get("empty"); advice != "" && isEmpty {
			d.add(value.Line, keyPath, "is empty; %s", advice)
			return
		}
		d.value(keyPath, value, f.value)
	})
}

func (d *decoder) mapping(path string, node *yaml.Node, target reflect.Value) {
	entries := reflect.MakeMap(target.Type())
	d.pairs(path, node, func(key, value *yaml.Node, keyPath string) {
		d.sources[keyPath] = d.at(key.Line)
		entry := newDefault(target.Type().Elem())
		before := len(d.problems)
		d.value(keyPath, value, entry)
		if len(d.problems) == before && (key.Value == "" || entry.Kind() == reflect.String && entry.Len() == 0) {
			d.add(value.Line, keyPath, "must have a key and a value")
		}
		entries.SetMapIndex(reflect.ValueOf(key.Value), entry)
	})
	target.Set(entries)
}

// pairs calls visit for each key of a mapping. It refuses duplicate keys.
func (d *decoder) pairs(path string, node *yaml.Node, visit func(key, value *yaml.Node, keyPath string)) {
	seen := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		if key.Kind != yaml.ScalarNode {
			d.add(key.Line, path, "a key must be text, not %s", describe(key))
			continue
		}
		keyPath := below(path, key.Value)
		if first, twice := seen[key.Value]; twice {
			d.add(key.Line, keyPath, "is set twice, first on line %d", first)
			continue
		}
		seen[key.Value] = key.Line
		visit(key, node.Content[i+1], keyPath)
	}
}

func (d *decoder) list(path string, node *yaml.Node, target reflect.Value) {
	items := reflect.MakeSlice(target.Type(), len(node.Content), len(node.Content))
	for i, item := range node.Content {
		item = resolveAlias(item)
		itemPath := fmt.Sprintf("%s[%d]", path, i)
		d.sources[itemPath] = d.at(item.Line)
		if d.scalar(itemPath, item, items.Index(i)) && item.Value == "" {
			d.add(item.Line, itemPath, "is empty")
		}
	}
	target.Set(items)
}

// scalar sets target to the value of a node, and reports whether the value could be read.
func (d *decoder) scalar(path string, node *yaml.Node, target reflect.Value) bool {
	if problem := scalarProblem(node, target); problem != "" {
		d.add(node.Line, path, "%s", problem)
		return false
	}
	if err := setText(target, node.Value); err != nil {
		d.add(node.Line, path, "%s", err)
		return false
	}
	return true
}

// scalarProblem tells why a node cannot be the value of target, or returns "". The text does not contain the value, which may
// be a secret.
func scalarProblem(node *yaml.Node, target reflect.Value) string {
	want, tags := "text", []string{"!!str", "!!int", "!!float", "!!timestamp"}
	switch target.Type() {
	case reflect.TypeFor[int]():
		want, tags = "a whole number", []string{"!!int"}
	case reflect.TypeFor[*bool]():
		want, tags = "true or false", []string{"!!bool"}
	}
	if node.Kind == yaml.ScalarNode && slices.Contains(tags, node.ShortTag()) {
		return ""
	}
	problem := fmt.Sprintf("must be %s, not %s", want, describe(node))
	if node.ShortTag() == "!!bool" && want == "text" {
		problem += "; put it in quotes if it is meant as text"
	}
	return problem
}

// describe names the kind of a node, but not its content.
func describe(node *yaml.Node) string {
	switch node.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "a section"
	default:
		return cmp.Or(scalarKinds[node.ShortTag()], "a value with a tag; put a value that begins with ! in quotes")
	}
}

var scalarKinds = map[string]string{
	"!!str": "text", "!!int": "a number", "!!float": "a number with a fraction", "!!bool": "a true/false value", "!!null": "nothing",
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

// resolveAlias follows an alias to its anchor. The structs have a fixed depth, so aliases cannot expand without limit.
func resolveAlias(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}

func lineOfInvalidUTF8(data []byte) int {
	const mark = "\xff" // no valid text has this byte
	valid, _, _ := bytes.Cut(bytes.ToValidUTF8(data, []byte(mark)), []byte(mark))
	return bytes.Count(valid, []byte("\n")) + 1
}
