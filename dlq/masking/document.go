package masking

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"unicode/utf8"
)

// maxDepth is how deep a document may nest. A deeper document is hidden as a whole.
const maxDepth = 1000

// Target is a path and the form of the values that it selects.
type Target struct {
	Path
	As Form
}

// Document is a JSON document in which Read has found the values to hide.
type Document struct {
	text   []byte
	isJSON bool
	hidden []hiddenValue // in order, disjoint
	// Used tells for each target whether it hides a value.
	Used []bool
}

type hiddenValue struct {
	span
	as        Form
	isRemoved bool // a member that is removed; the span has its name too
}

// Read finds the values that targets hide, and adds their texts to quotes. It reports false for a document that is no
// JSON object or list, or nests too deep. If there are targets, the caller then hides the document as a whole.
//
// Read does not decode the text. So it finds all members with the same name, and numbers keep their digits.
func Read(text []byte, targets []Target, quotes *Quotes) (Document, bool) {
	d := Document{text: text, Used: make([]bool, len(targets))}
	if !utf8.Valid(text) || !json.Valid(text) {
		return d, false
	}
	begin := skipSpace(text, 0)
	if _, depth := extent(text, begin); depth == 0 || depth > maxDepth {
		return d, false
	}
	r := reader{Document: &d, targets: targets, quotes: quotes}
	states := make([]uint64, len(targets))
	for i := range targets {
		states[i] = targets[i].start()
	}
	r.value(begin, begin, states, 0)
	d.isJSON = true
	return d, true
}

type reader struct {
	*Document
	targets []Target
	quotes  *Quotes
	buffers [][]uint64 // buffers for the states of each depth
}

// value reads the value at i, and returns its end. The member or the item that has the value begins at begin.
func (r *reader) value(begin, i int, states []uint64, depth int) int {
	var as Form
	isPossible := false
	for t, state := range states {
		isPossible = isPossible || state != 0
		if r.targets[t].hasMatched(state) && state != 0 {
			r.Used[t] = true
			as = Stronger(as, r.targets[t].As)
		}
	}
	isObject := r.text[i] == '{'
	switch {
	case as != "":
		end, _ := extent(r.text, i)
		r.addLeaves(r.text[i:end])
		h := hiddenValue{span{i, end}, as, as == Remove && begin < i}
		if h.isRemoved {
			h.begin = begin
		}
		r.hidden = append(r.hidden, h)
		return end
	case !isPossible || !isObject && r.text[i] != '[':
		end, _ := extent(r.text, i)
		return end
	}
	for len(r.buffers) <= depth {
		r.buffers = append(r.buffers, make([]uint64, len(r.targets)))
	}
	i = skipSpace(r.text, i+1)
	for index := 0; r.text[i] != '}' && r.text[i] != ']'; index++ {
		begin, name := i, strconv.Itoa(index)
		if isObject {
			end := tokenEnd(r.text, i)
			name = textOf(r.text[i:end])
			i = skipSpace(r.text, skipSpace(r.text, end)+1) // skips the colon
		}
		below := r.buffers[depth]
		for t, state := range states {
			below[t] = 0
			if state != 0 {
				below[t] = r.targets[t].step(state, func(own string) bool { return own == name })
			}
		}
		if i = skipSpace(r.text, r.value(begin, i, below, depth+1)); r.text[i] == ',' {
			i = skipSpace(r.text, i+1)
		}
	}
	return i + 1
}

// addLeaves adds the texts and numbers of a hidden value to the quotes.
func (r *reader) addLeaves(value []byte) {
	for begin, end := range tokens(value, 0) {
		raw := value[begin:end]
		if c := raw[0]; c == '-' || '0' <= c && c <= '9' {
			r.quotes.Add(string(raw))
		}
		if raw[0] != '"' {
			continue
		}
		text := textOf(raw)
		if next := skipSpace(value, end); next == len(value) || value[next] != ':' {
			r.quotes.Add(text)
			r.quotes.add(string(raw[1 : len(raw)-1])) // as it is written, with its escapes
			r.quotes.addNested(text, maxNested)
		} else if !isIdentifier(text) {
			r.quotes.Add(text)
		}
	}
}

// Masked returns the document without its hidden values and without quotes of hidden texts. A document without such
// values and quotes is returned as it is. isQuoted reports whether there were quotes outside of the hidden values.
func (d *Document) Masked(secret []byte, quotes *Quotes) (text []byte, isQuoted bool) {
	if !d.isJSON || quotes.IsEmpty() && len(d.hidden) == 0 {
		text = quotes.Bytes(d.text)
		return text, !bytes.Equal(text, d.text)
	}
	w := writer{quotes: quotes}
	hidden, done := d.hidden, 0
	for begin, end := range tokens(d.text, 0) {
		switch {
		case begin < done: // within a hidden value
		case len(hidden) == 0 || begin < hidden[0].begin:
			w.token(d.text[begin:end])
		default:
			w.hidden(&hidden[0], d.text, secret)
			done, hidden = hidden[0].end, hidden[1:]
		}
	}
	if len(d.hidden) == 0 && !w.isQuoted {
		return d.text, false
	}
	return w.out.Bytes(), w.isQuoted
}

type writer struct {
	quotes     *Quotes
	out        bytes.Buffer
	isCommaDue bool // a comma must come before the next member
	isQuoted   bool
}

// hidden writes a hidden value in its form. A removed item of a list becomes null, so that the other items keep their indexes.
func (w *writer) hidden(h *hiddenValue, document, secret []byte) {
	switch {
	case h.isRemoved:
	case h.as == Remove:
		w.raw([]byte("null"))
	default:
		w.text(h.as.Of(plain(document[h.begin:h.end]), secret))
	}
}

// token writes a token that is not hidden.
func (w *writer) token(raw []byte) {
	switch c := raw[0]; {
	case c == ',':
		w.isCommaDue = true
		return
	case c == '}' || c == ']':
		w.isCommaDue = false // the last member was removed
	case c != '"':
		if w.quotes.exact[string(raw)] {
			w.isQuoted = true
			w.text(Hidden)
			return
		}
	case len(raw) >= minQuote+2 && !w.quotes.IsEmpty(): // a shorter text has no quote; decoding makes no text longer
		before := textOf(raw)
		if after := w.quotes.Text(before); after != before {
			w.isQuoted = true
			w.text(after)
			return
		}
	}
	w.raw(raw)
}

func (w *writer) text(text string) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // texts always encode
	w.raw(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// raw writes a token, and the comma before it unless all members before it were removed.
func (w *writer) raw(token []byte) {
	if w.isCommaDue && !bytes.HasSuffix(w.out.Bytes(), []byte("{")) {
		w.out.WriteByte(',')
	}
	w.isCommaDue = false
	w.out.Write(token)
}

// plain returns a string decoded, an object or a list without white space, and every other value as it is written.
func plain(raw []byte) string {
	if raw[0] == '"' {
		return textOf(raw)
	}
	if raw[0] == '{' || raw[0] == '[' {
		var compact bytes.Buffer
		_ = json.Compact(&compact, raw) // it is valid
		return compact.String()
	}
	return string(raw)
}

// textOf decodes a string of JSON.
func textOf(raw []byte) (text string) {
	if !slices.Contains(raw, '\\') {
		return string(raw[1 : len(raw)-1])
	}
	_ = json.Unmarshal(raw, &text) // it is valid
	return text
}

// The functions below read valid JSON.

func skipSpace(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r') {
		i++
	}
	return i
}

// tokens yields the begin and the end of each token from i on: a text, a number, a word or a mark.
func tokens(text []byte, i int) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for i := skipSpace(text, i); i < len(text); {
			end := tokenEnd(text, i)
			if !yield(i, end) {
				return
			}
			i = skipSpace(text, end)
		}
	}
}

func tokenEnd(text []byte, i int) int {
	switch text[i] {
	case '"':
		for i++; text[i] != '"'; i++ {
			if text[i] == '\\' {
				i++
			}
		}
		return i + 1
	case '{', '}', '[', ']', ',', ':':
		return i + 1
	}
	for i < len(text) && text[i] != ',' && text[i] != '}' && text[i] != ']' && text[i] > ' ' {
		i++
	}
	return i
}

// extent returns the end of the value at i, and how deep it nests.
func extent(text []byte, i int) (end, deepest int) {
	depth := 0
	for begin, end := range tokens(text, i) {
		switch text[begin] {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
		if depth == 0 {
			return end, deepest
		}
	}
	return len(text), deepest
}
