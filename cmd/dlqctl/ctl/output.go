package ctl

import (
	"bytes"
	"cmp"
	"context"
	"dlqmanager/client"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/itchyny/gojq"
)

// The output formats.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatJSONL = "jsonl"
	formatCSV   = "csv"
	formatName  = "name"
)

var formats = []string{formatTable, formatWide, formatJSON, formatJSONL, formatCSV, formatName}

func (s *session) checkOutput() error {
	if !slices.Contains(formats, s.flags.output) {
		return fmt.Errorf("--output is one of %s, not %q", strings.Join(formats, ", "), s.flags.output)
	}
	if s.flags.jq != "" && s.flags.output != formatJSON && s.flags.output != formatJSONL && s.flags.output != formatTable {
		return errors.New("--jq goes with -o json or -o jsonl")
	}
	return nil
}

// view describes how the records of a noun are shown.
type view struct {
	noun string // for -o name
	// list is the field of an answer that has the records; empty if the answer is one record.
	list string
	// whole is set if the whole list is one page, and the request has no parameters.
	whole bool
	// id is the path of the field that -o name prints. Default: id.
	id      string
	columns []column
	// wide are the columns that -o wide shows in addition.
	wide []column
	// sample and more are values of the types of the records. --fields may name the fields of these types.
	sample any
	more   []any
}

// column is one column of a table: its title, and the path of a field.
type column struct{ title, path string }

func columnOf(field string) column { return column{field, field} }

// printer writes records in the format of the run.
type printer struct {
	view
	out      io.Writer
	format   string
	fields   []string
	query    *gojq.Code
	terminal bool
	// console is the URL of the record's page in the console, for the output of one record.
	console string
	widths  []int
	csv     *csv.Writer // nil for other formats
	records int64       // number of records that were written
	next    string      // the cursor of the next page; empty at the end
}

func (s *session) printer(v view) (*printer, error) {
	p := &printer{view: v, out: s.out, format: s.flags.output, terminal: terminal(s.Stdout)}
	p.id = cmp.Or(v.id, "id")
	known := knownFields(append([]any{v.sample}, v.more...)...)
	switch {
	case len(s.flags.fields) > 0:
		p.columns = nil
	case len(p.columns) == 0: // the view names no columns, since no list shows these records
		p.columns = mapped(known.names(), columnOf)
	case p.format == formatWide:
		p.columns = append(slices.Clip(p.columns), v.wide...)
	}
	for _, field := range s.flags.fields {
		if !known.has(field) {
			return nil, usageError{fmt.Errorf("--fields: %s have no field %q; they have %s", v.noun, field, strings.Join(known.names(), ", "))}
		}
		if !slices.Contains(p.fields, field) { // a JSON object must not have the same name twice
			p.fields, p.columns = append(p.fields, field), append(p.columns, columnOf(field))
		}
	}
	if p.format == formatCSV {
		p.csv = csv.NewWriter(s.out)
		if err := p.csv.Write(mapped(p.columns, func(c column) string { return c.path })); err != nil {
			return nil, err
		}
	}
	if p.format == formatName && !known.has(p.id) {
		return nil, usageError{errors.New("this answer has no id for -o name")}
	}
	if s.flags.jq == "" {
		return p, nil
	}
	if p.format == formatTable {
		p.format = formatJSON
	}
	parsed, err := gojq.Parse(s.flags.jq)
	if err == nil {
		p.query, err = gojq.Compile(parsed)
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("--jq: %w", err)}
	}
	return p, nil
}

// page writes one answer, which is a page of a list or one record.
func (p *printer) page(ctx context.Context, body []byte) (err error) {
	records := []json.RawMessage{body}
	if p.list != "" {
		if records, p.next, err = readPage(body, p.list); err != nil {
			return err
		}
	}
	switch {
	case p.format == formatJSON && len(p.fields) == 0:
		p.records += int64(len(records))
		return p.document(ctx, body)
	case p.list != "" && p.isTable():
		return p.table(records)
	}
	for _, record := range records {
		if err := p.record(ctx, record); err != nil {
			return err
		}
	}
	return nil
}

func (p *printer) isTable() bool { return p.format == formatTable || p.format == formatWide }

// readPage returns the unchanged records of a page, and the cursor of the next page, if there is one.
func readPage(body []byte, list string) (records []json.RawMessage, next string, err error) {
	var answer map[string]json.RawMessage
	if err = json.Unmarshal(body, &answer); err == nil {
		err = json.Unmarshal(answer[list], &records)
	}
	if err != nil {
		return nil, "", fmt.Errorf("the answer has no list %q: %w", list, err)
	}
	var place client.Pagination
	if pagination, isPaged := answer["pagination"]; isPaged {
		if err := json.Unmarshal(pagination, &place); err != nil {
			return nil, "", fmt.Errorf("the pagination of the answer: %w", err)
		}
	}
	return records, valueOf(place.NextCursor), nil
}

// document writes JSON unchanged, or the results of --jq.
func (p *printer) document(ctx context.Context, body []byte) error {
	if p.query != nil {
		return p.jq(ctx, body)
	}
	return p.json(body)
}

// json writes JSON unchanged, and a line break at its end.
func (p *printer) json(body []byte) error {
	if p.terminal {
		body = safeJSON(body)
	}
	_, err := fmt.Fprintf(p.out, "%s\n", bytes.TrimSuffix(body, []byte("\n")))
	return err
}

// record writes one record.
func (p *printer) record(ctx context.Context, record json.RawMessage) error {
	p.records++
	if (p.format == formatJSON || p.format == formatJSONL) && len(p.fields) == 0 {
		if bytes.IndexByte(record, '\n') < 0 {
			return p.document(ctx, record) // the record is already one line
		}
		var line bytes.Buffer
		if err := json.Compact(&line, record); err != nil {
			return err
		}
		return p.document(ctx, line.Bytes())
	}
	value, err := decode(record)
	if err != nil {
		return err
	}
	switch p.format {
	case formatJSON, formatJSONL:
		chosen, err := choose(value, p.fields)
		if err != nil {
			return err
		}
		return p.document(ctx, chosen)
	case formatName:
		_, err = fmt.Fprintf(p.out, "%s/%s\n", p.noun, oneLine(text(at(value, p.id))))
		return err
	case formatCSV:
		return p.row(value)
	}
	return p.sheet(value)
}

// formulas are the characters that begin a formula in a spreadsheet, also as full-width characters.
const formulas = "=+-@＝＋－＠"

// isFormula tells whether a spreadsheet may run a text. It ignores space before a formula. A tab or a line end at the beginning
// may start another cell.
func isFormula(text string) bool {
	begin := strings.TrimLeftFunc(text, func(r rune) bool { return unicode.IsSpace(r) || dangerous(r) })
	first, _ := utf8.DecodeRuneInString(begin)
	return begin != "" && strings.ContainsRune(formulas, first) || text != "" && strings.ContainsRune("\t\r\n", rune(text[0]))
}

// row writes one line of CSV. A ' before a formula makes spreadsheets treat it as text.
func (p *printer) row(value any) error {
	cells := make([]string, len(p.columns))
	for i, column := range p.columns {
		field := at(value, column.path)
		cells[i] = text(field)
		if _, isNumber := field.(json.Number); !isNumber && isFormula(cells[i]) {
			cells[i] = "'" + cells[i]
		}
		if p.terminal {
			cells[i] = printable(cells[i])
		}
	}
	return p.csv.Write(cells)
}

// jq writes each result of the expression as a line of JSON. A result that is a text is written without quotes, as jq -r does.
func (p *printer) jq(ctx context.Context, body []byte) error {
	value, err := decode(body)
	if err != nil {
		return err
	}
	results := p.query.RunWithContext(ctx, value)
	for {
		result, ok := results.Next()
		if !ok {
			return nil
		}
		if failed, isError := result.(error); isError {
			return fmt.Errorf("--jq: %w", failed)
		}
		if line, isText := result.(string); isText {
			if p.terminal {
				line = printable(line)
			}
			_, err = fmt.Fprintln(p.out, line)
		} else if encoded, failed := gojq.Marshal(result); failed != nil {
			err = fmt.Errorf("--jq: %w", failed)
		} else {
			err = p.json(encoded)
		}
		if err != nil {
			return err
		}
	}
}

// one writes a single record. A command that watches a record calls this method for each new state.
func (p *printer) one(ctx context.Context, answer []byte) error {
	if err := p.page(ctx, answer); err != nil {
		return err
	}
	return p.end()
}

// end writes the buffered lines of CSV. If the list is empty, the only line has the names of the columns.
func (p *printer) end() error {
	if p.csv == nil {
		return nil
	}
	p.csv.Flush()
	return p.csv.Error()
}
