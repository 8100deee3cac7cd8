package ctl

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
)

// longestCell is the width at which a cell of a table is cut. With -o wide or --fields, cells are not cut.
const longestCell = 60

// table writes a page of records. The first page sets the widths of the columns, so that the first page of a long list is shown
// at once.
func (p *printer) table(records []json.RawMessage) error {
	rows := make([][]string, 0, len(records)+1)
	if p.records == 0 {
		rows = append(rows, mapped(p.columns, func(c column) string { return c.title }))
	}
	for _, record := range records {
		value, err := decode(record)
		if err != nil {
			return err
		}
		rows = append(rows, mapped(p.columns, func(c column) string { return p.cell(c, at(value, c.path)) }))
	}
	if p.widths == nil {
		p.widths = make([]int, len(p.columns))
		for _, row := range rows {
			for i, cell := range row {
				p.widths[i] = max(p.widths[i], runewidth.StringWidth(cell))
			}
		}
	}
	p.records += int64(len(records))
	var lines strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			row[i] = runewidth.FillRight(cell, p.widths[i])
		}
		fmt.Fprintln(&lines, strings.TrimRight(strings.Join(row, "  "), " "))
	}
	_, err := fmt.Fprint(p.out, lines.String())
	return err
}

// cell is a value in one line. It is cut, unless -o wide or --fields asks for whole values.
func (p *printer) cell(column column, value any) string {
	cell := oneLine(shown(value))
	if share, err := strconv.ParseFloat(cell, 64); err == nil && column.title == "PROGRESS" {
		return fmt.Sprintf("%d%%", int(share*100))
	}
	if p.format == formatTable && len(p.fields) == 0 {
		cell = runewidth.Truncate(cell, longestCell, "…")
	}
	return cell
}

// sheet writes one record for people: first the fields of one line, then the longer fields. Without --fields it leaves out
// empty fields, and base64. -o json shows all fields.
func (p *printer) sheet(value any) error {
	var fields []field
	for _, path := range p.fields {
		fields = append(fields, flatten(path, at(value, path))...)
	}
	if len(p.fields) == 0 {
		fields = append(flatten("", value), field{"page", p.console})
	}
	width := 0
	var short, long []field
	for _, f := range fields {
		f.path, f.text = oneLine(f.path), printable(f.text)
		switch {
		case len(p.fields) == 0 && (f.text == "" || strings.HasSuffix(f.path, ".base64")):
		case strings.Contains(f.text, "\n"):
			long = append(long, f)
		default:
			short = append(short, f)
			width = max(width, runewidth.StringWidth(f.path))
		}
	}
	var sheet strings.Builder
	if p.records > 1 {
		sheet.WriteByte('\n')
	}
	for _, f := range short {
		fmt.Fprintln(&sheet, strings.TrimRight(runewidth.FillRight(f.path, width)+"  "+f.text, " "))
	}
	for _, f := range long {
		fmt.Fprintf(&sheet, "%s\n    %s\n", f.path, strings.ReplaceAll(strings.Trim(f.text, "\n"), "\n", "\n    "))
	}
	_, err := fmt.Fprint(p.out, sheet.String())
	return err
}

type field struct{ path, text string }

// flatten lists the fields of a record, sorted by name. A field of an object has a path, such as counts.PENDING. A list is one
// line, but a list of objects has a line for each object.
func flatten(path string, value any) []field {
	object, _ := value.(map[string]any)
	list, _ := value.([]any)
	_, isStored := stored(object)
	switch {
	case slices.ContainsFunc(list, isObject):
		return []field{{path, "\n" + strings.Join(mapped(list, inOneLine), "\n")}}
	case len(object) == 0 || isStored:
		return []field{{path, shown(value)}}
	}
	var all []field
	for _, name := range sortedNames(object) {
		below := strings.TrimPrefix(path+"."+name, ".")
		switch {
		case below == "payload": // dead letters choose its fields, so it stays one value
			all = append(all, field{below, indented(object[name])})
		case below == "value" && object["payload"] != nil: // the payload shows the same value
		default:
			all = append(all, flatten(below, object[name])...)
		}
	}
	return all
}

// inOneLine writes an element of a list of objects. A header is written as its name and its text. If the value is no text, it
// is written in base64.
func inOneLine(element any) string {
	object, ok := element.(map[string]any)
	if name, isHeader := object["key"].(string); ok && isHeader {
		if written, isText := object["text"].(string); isText {
			return name + ": " + oneLine(written)
		}
		return name + ": base64 " + text(object["value"])
	}
	return text(element)
}

func isObject(value any) bool {
	_, ok := value.(map[string]any)
	return ok
}

// sortedNames are the sorted names of the fields, with the id first.
func sortedNames(object map[string]any) []string {
	names := slices.Sorted(maps.Keys(object))
	if i := slices.Index(names, "id"); i >= 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, "id")
	}
	return names
}

func indented(value any) string {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil || !isObject(value) {
		return text(value)
	}
	return string(content)
}

// shown writes a value for people. It writes times as local times.
func shown(value any) string {
	written, _ := value.(string)
	if len(written) >= len("2006-01-02T15:04:05Z") && len(written) <= len(time.RFC3339Nano) {
		if at, err := time.Parse(time.RFC3339Nano, written); err == nil {
			return at.Local().Format(time.RFC3339)
		}
	}
	return text(value)
}
