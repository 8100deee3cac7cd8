package masking

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf8"
)

// maxDepth is how deep a document may nest. A deeper one is hidden as a whole.
const maxDepth = 1000

// Target is a path and the form of the values that it selects.
type Target struct {
	Path
	As Form
}

// Document is a JSON document with the values that targets hide.
type Document struct {
	text   []byte
	hidden []hiddenValue // in order, disjoint
	// Used tells which targets hide a value.
	Used []bool
}

type hiddenValue struct {
	span
	as Form
}

// Read finds the values that targets hide, and adds their texts to quotes. It reports false for a document that is no
// JSON object or list, or nests too deep: that is to be hidden as a whole.
//
// It reads the text itself instead of a decoded value. So it sees each of several members with the same name, and numbers
// keep their digits.
func Read(text []byte, targets []Target, quotes *Quotes) (Document, bool) {
	d := Document{text: text, Used: make([]bool, len(targets))}
	if !utf8.Valid(text) || !json.Valid(text) {
		return d, false
	}
	begin := skipSpace(text, 0)
	if text[begin] != '{' && text[begin] != '[' || depthOf(text) > maxDepth {
		return d, false
	}
	r := reader{Document: &d, targets: targets, quotes: quotes}
	states := make([]uint64, len(targets))
	for i := range targets {
		states[i] = targets[i].start()
	}
	r.value(begin, states, 0)
	return d, true
}

type reader struct {
	*Document
	targets []Target
	quotes  *Quotes
	buffers [][]uint64 // of states, by depth
}

// value reads the value at i and returns its end.
func (r *reader) value(i int, states []uint64, depth int) int {
	var as Form
	isPossible := false
	for t, state := range states {
		isPossible = isPossible || state != 0
		if r.targets[t].hasMatched(state) && state != 0 {
			r.Used[t] = true
			as = Stronger(as, r.targets[t].As)
		}
	}
	switch {
	case as != "":
		end := skipValue(r.text, i)
		r.hidden = append(r.hidden, hiddenValue{span{i, end}, as})
		r.addLeaves(i, end)
		return end
	case !isPossible || r.text[i] != '{' && r.text[i] != '[':
		return skipValue(r.text, i)
	}
	for len(r.buffers) <= depth {
		r.buffers = append(r.buffers, make([]uint64, len(r.targets)))
	}
	index := -1
	return eachMember(r.text, i, func(raw []byte, value int) int {
		index++
		name := strconv.Itoa(index)
		if raw != nil {
			name = textOf(raw)
		}
		below := r.buffers[depth]
		for t, state := range states {
			below[t] = 0
			if state != 0 {
				below[t] = r.targets[t].step(state, func(own string) bool { return own == name })
			}
		}
		return r.value(value, below, depth+1)
	})
}

// addLeaves adds the texts and numbers of a hidden value to the quotes.
func (r *reader) addLeaves(begin, end int) {
	for i := begin; i < end; {
		switch c := r.text[i]; {
		case c == '"':
			last := skipValue(r.text, i)
			text := textOf(r.text[i:last])
			if next := skipSpace(r.text[:end], last); next >= end || r.text[next] != ':' {
				r.quotes.Add(text)
				r.quotes.add(string(r.text[i+1 : last-1])) // as it is written, with its escapes
				r.quotes.addNested(text, maxNested)
			} else if !isIdentifier(text) {
				r.quotes.Add(text)
			}
			i = last
		case c == '-' || '0' <= c && c <= '9':
			last := skipValue(r.text, i)
			r.quotes.Add(string(r.text[i:last]))
			i = last
		default:
			i++
		}
	}
}

// Masked is the document without its hidden values and without quotes of hidden texts. It is the text itself if it has
// none. isQuoted reports whether it had quotes beside the hidden values.
func (d *Document) Masked(secret []byte, quotes *Quotes) (text []byte, isQuoted bool) {
	if len(d.hidden) == 0 && quotes.IsEmpty() {
		return d.text, false
	}
	w := writer{document: d, secret: secret, quotes: quotes}
	if w.value(skipSpace(d.text, 0)); w.isRemoved {
		return []byte("null"), false
	}
	if len(d.hidden) == 0 && !w.isQuoted {
		return d.text, false
	}
	return w.out.Bytes(), w.isQuoted
}

type writer struct {
	document  *Document
	next      int // of the hidden values
	secret    []byte
	quotes    *Quotes
	out       bytes.Buffer
	isQuoted  bool
	isRemoved bool // the last value
}

// value writes the value at i, unless it is removed, and returns its end.
func (w *writer) value(i int) int {
	text := w.document.text
	w.isRemoved = false
	if hidden := w.document.hidden; w.next < len(hidden) && hidden[w.next].begin == i {
		h := hidden[w.next]
		w.next++
		if w.isRemoved = h.as == Remove; !w.isRemoved {
			w.text(h.as.Of(plain(text[h.begin:h.end]), w.secret))
		}
		return h.end
	}
	if text[i] == '{' || text[i] == '[' {
		return w.members(i)
	}
	end := skipValue(text, i)
	w.scalar(text[i:end])
	return end
}

// members writes an object or a list, and returns its end.
func (w *writer) members(i int) int {
	text := w.document.text
	w.out.WriteByte(text[i])
	isFirst := true
	end := eachMember(text, i, func(name []byte, value int) int {
		mark := w.out.Len()
		if !isFirst {
			w.out.WriteByte(',')
		}
		if name != nil {
			w.scalar(name)
			w.out.WriteByte(':')
		}
		end := w.value(value)
		switch {
		case w.isRemoved && name != nil:
			w.out.Truncate(mark)
			return end
		case w.isRemoved: // the others keep their indexes
			w.out.WriteString("null")
		}
		isFirst = false
		return end
	})
	w.out.WriteByte(text[end-1])
	w.isRemoved = false
	return end
}

// scalar writes a value that is not hidden, or a name.
func (w *writer) scalar(raw []byte) {
	if raw[0] != '"' {
		if w.quotes.exact[string(raw)] {
			w.isQuoted = true
			w.text(Hidden)
			return
		}
		w.out.Write(raw)
		return
	}
	if len(raw) < minQuote+2 || w.quotes.IsEmpty() { // it quotes nothing; an escape is longer than its character
		w.out.Write(raw)
		return
	}
	before := textOf(raw)
	if after := w.quotes.Text(before); after != before {
		w.isQuoted = true
		w.text(after)
		return
	}
	w.out.Write(raw)
}

func (w *writer) text(text string) {
	encoder := json.NewEncoder(&w.out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text)        // texts always encode
	w.out.Truncate(w.out.Len() - 1) // its line break
}

// plain is a text without quotes, and every other value as it is written.
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

// eachMember visits the members of the object or list at i, each with its name as it is written, nil in a list, and the
// place of its value, whose end visit returns. It returns the end of the object or list.
func eachMember(text []byte, i int, visit func(name []byte, value int) (end int)) int {
	isObject := text[i] == '{'
	for i = skipSpace(text, i+1); text[i] != '}' && text[i] != ']'; {
		var name []byte
		if isObject {
			end := skipValue(text, i)
			name = text[i:end]
			i = skipSpace(text, skipSpace(text, end)+1) // behind the colon
		}
		if i = skipSpace(text, visit(name, i)); text[i] == ',' {
			i = skipSpace(text, i+1)
		}
	}
	return i + 1
}

// skipValue returns the end of the value or the name that begins at i.
func skipValue(text []byte, i int) int {
	switch text[i] {
	case '"':
		for i++; text[i] != '"'; i++ {
			if text[i] == '\\' {
				i++
			}
		}
		return i + 1
	case '{', '[':
		for depth := 0; ; {
			switch text[i] {
			case '"':
				i = skipValue(text, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			if i++; depth == 0 {
				return i
			}
		}
	}
	for i < len(text) && text[i] != ',' && text[i] != '}' && text[i] != ']' && text[i] != ':' && text[i] > ' ' {
		i++
	}
	return i
}

func depthOf(text []byte) (most int) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = skipValue(text, i) - 1
		case '{', '[':
			depth++
			most = max(most, depth)
		case '}', ']':
			depth--
		}
	}
	return most
}
