package config

import (
	"bytes"
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

// decoder compares the nodes of the file with the struct, instead of letting the YAML
// library fill it. Nodes know their lines, so all problems are reported at once with
// line and key. And no value is converted silently.
type decoder struct {
	file     string
	sources  map[string]source
	problems Problems
}

// decodeFile sets every key of the file.
func decodeFile(c *Config, file string, data []byte, sources map[string]source) Problems {
	d := &decoder{file: file, sources: sources}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		d.add(lineOfInvalidUTF8(data), "", "is not UTF-8 text")
		return d.problems
	}
	reader := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	if err := reader.Decode(&document); err != nil {
		if !errors.Is(err, io.EOF) {
			d.syntax(err)
		}
		return d.problems
	}
	if err := reader.Decode(&second); err == nil {
		d.add(second.Line, "", "starts a second YAML document; only one is read")
	} else if !errors.Is(err, io.EOF) {
		d.syntax(err)
	}
	d.section("", document.Content[0], reflect.ValueOf(c).Elem())
	return d.problems
}

func (d *decoder) add(line int, path, format string, args ...any) {
	d.problems = append(d.problems, Problem{File: d.file, Line: line, Key: path, Message: fmt.Sprintf(format, args...)})
}

var syntaxLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// syntax reports an error of the YAML library, with its line if it has one.
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
	d.add(max(line, 1), "", "malformed YAML: %s", text)
}

// section reads a mapping into a struct.
func (d *decoder) section(path string, node *yaml.Node, structure reflect.Value) {
	node = resolveAlias(node)
	if isNull(node) {
		return // all its keys are commented out
	}
	if node.Kind != yaml.MappingNode {
		d.add(node.Line, path, "must be a section of keys and values, not %s", describe(node))
		return
	}
	fields := map[string]reflect.Value{}
	var names []string
	for i := range structure.NumField() {
		if name := structure.Type().Field(i).Tag.Get("yaml"); name != "" {
			fields[name] = structure.Field(i)
			names = append(names, name)
		}
	}
	d.pairs(path, node, func(key, value *yaml.Node, keyPath string) {
		target, known := fields[key.Value]
		switch {
		case !known:
			d.add(key.Line, keyPath, "unknown key%s", suggestion(key.Value, names))
		case isSection(target):
			d.section(keyPath, value, target)
		default:
			d.value(keyPath, resolveAlias(value), target)
		}
	})
}

// pairs calls visit for each key of a mapping, refusing duplicates.
func (d *decoder) pairs(path string, node *yaml.Node, visit func(key, value *yaml.Node, keyPath string)) {
	seen := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		if key.Kind != yaml.ScalarNode {
			d.add(key.Line, path, "a key must be text, not %s", describe(key))
			continue
		}
		keyPath := key.Value
		if path != "" {
			keyPath = path + "." + key.Value
		}
		if first, twice := seen[key.Value]; twice {
			d.add(key.Line, keyPath, "is set twice, first on line %d", first)
			continue
		}
		seen[key.Value] = key.Line
		visit(key, node.Content[i+1], keyPath)
	}
}

// value reads one key. null leaves the default, as for a key without a value in a
// template.
func (d *decoder) value(path string, node *yaml.Node, target reflect.Value) {
	if isNull(node) {
		return
	}
	d.sources[path] = source{file: d.file, line: node.Line}
	switch t := target.Addr().Interface().(type) {
	case *[]string:
		if node.Kind == yaml.SequenceNode {
			d.list(path, node, t)
			return
		}
	case *map[string]string:
		if node.Kind != yaml.MappingNode {
			d.add(node.Line, path, "must be a mapping of names to names, not %s", describe(node))
			return
		}
		d.mapping(path, node, t)
		return
	case *RoleGrants:
		d.roles(path, node, t)
		return
	case *OriginGlobs:
		d.origins(path, node, t)
		return
	case *Endpoints:
		d.endpoints(path, node, t)
		return
	}
	if problem := scalarProblem(node, target); problem != "" {
		d.add(node.Line, path, "%s", problem)
		return
	}
	if err := setText(target, node.Value); err != nil {
		d.add(node.Line, path, "%s", err)
	}
}

func (d *decoder) list(path string, node *yaml.Node, target *[]string) {
	items := make([]string, 0, len(node.Content))
	for i, item := range node.Content {
		item = resolveAlias(item)
		itemPath := fmt.Sprintf("%s[%d]", path, i)
		d.sources[itemPath] = source{file: d.file, line: item.Line}
		if problem := scalarProblem(item, reflect.ValueOf(new(string)).Elem()); problem != "" {
			d.add(item.Line, itemPath, "%s", problem)
		} else if item.Value == "" {
			d.add(item.Line, itemPath, "is empty")
		}
		items = append(items, item.Value)
	}
	*target = items
}

func (d *decoder) mapping(path string, node *yaml.Node, target *map[string]string) {
	pairs := map[string]string{}
	d.pairs(path, node, func(key, value *yaml.Node, keyPath string) {
		value = resolveAlias(value)
		if problem := scalarProblem(value, reflect.ValueOf(new(string)).Elem()); problem != "" {
			d.add(value.Line, keyPath, "%s", problem)
		} else if key.Value == "" || value.Value == "" {
			d.add(value.Line, keyPath, "must have a key and a value")
		}
		pairs[key.Value] = value.Value
	})
	*target = pairs
}

// scalarProblem tells why a node cannot be the value of target, or is "". It never
// contains the value, which may be a secret.
func scalarProblem(node *yaml.Node, target reflect.Value) string {
	want, tags := "text", []string{"!!str", "!!int", "!!float", "!!timestamp"}
	switch target.Interface().(type) {
	case int:
		want, tags = "a whole number", []string{"!!int"}
	case *bool:
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

// describe names the kind of a node, without its content.
func describe(node *yaml.Node) string {
	switch node.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "a section"
	default:
	}
	switch node.ShortTag() {
	case "!!str":
		return "text"
	case "!!int":
		return "a number"
	case "!!float":
		return "a number with a fraction"
	case "!!bool":
		return "a true/false value"
	case "!!null":
		return "nothing"
	default:
		return "a value tagged " + node.ShortTag()
	}
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

// resolveAlias follows an alias to its anchor. Values have the fixed depth of the
// structs, so aliases cannot expand without limit.
func resolveAlias(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}

func lineOfInvalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return bytes.Count(data[:i], []byte("\n")) + 1
		}
		i += size
	}
	return 0
}
