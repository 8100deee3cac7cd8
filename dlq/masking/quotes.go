package masking

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// minQuote is the length of the shortest hidden text that is searched, in bytes. Shorter texts occur everywhere.
	minQuote = 4
	// gram is how many bytes from the beginning of a hidden text are enough for a quote, since errors cut quotes off.
	gram = 8
	// minPart is how many bytes from the middle of a hidden text are enough for a quote.
	minPart = 16
	// maxQuotes limits all hidden texts together, in bytes. With more, all texts are hidden.
	maxQuotes = 256 << 10
	// maxForms is how many hidden texts are searched in other forms too, such as base64.
	maxForms = 1000
	// maxWhole is how many bytes from the beginning of an opaque document are searched as a whole.
	maxWhole = 16 << 10
)

// Quotes finds quotes of hidden texts in other texts. It ignores the case of ASCII letters. The zero value finds nothing.
//
// Of a hidden text, Quotes keeps the grams: every sequence of gram bytes in the text, as a number. Consecutive known grams in
// another text are a quote if one of them is the beginning of a hidden text, or if they have minPart bytes. So a text is
// read once, however many hidden texts there are.
type Quotes struct {
	grams  map[uint64]bool // true for the beginning of a hidden text
	short  map[uint64]bool // hidden texts of fewer than gram bytes; see shortKey
	exact  map[string]bool // hidden numbers
	forms  int
	size   int
	isFull bool
	// isBinary is set while a binary document is added. Nobody knows where its texts begin, so all its grams count as beginnings.
	isBinary bool
}

// HideAll hides every text: any text may quote a hidden text that is not known.
func (q *Quotes) HideAll() { q.isFull = true }

// IsEmpty reports whether there is nothing to find.
func (q *Quotes) IsEmpty() bool { return q.size == 0 && !q.isFull }

// Add adds a hidden text, and the forms in which other texts quote it, such as base64.
func (q *Quotes) Add(text string) {
	q.add(text)
	if len(text) < minQuote || q.isFull {
		return
	}
	if q.forms++; q.forms > maxForms {
		return
	}
	add := func(form string) {
		if form != text {
			q.add(form)
		}
	}
	if isNumber(text) {
		q.exact[text] = true
	}
	if quoted, err := json.Marshal(text); err == nil {
		add(string(quoted[1 : len(quoted)-1]))
	}
	add(escaped(text))
	add(htmlEscaped.Replace(escaped(text)))
	add(url.QueryEscape(text))
	add(url.PathEscape(text))
	if len(text) >= gram {
		add(hex.EncodeToString([]byte(text)))
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			for shift := range 3 { // base64 encodes groups of three bytes, and the text may begin anywhere in a group
				encoded := encoding.EncodeToString(append(make([]byte, shift), text...))
				add(encoded[[]int{0, 2, 3}[shift] : (shift+len(text))/3*4])
			}
		}
	}
}

// htmlEscaped escapes like JSON encoders whose output may stand in HTML.
var htmlEscaped = strings.NewReplacer("&", `\u0026`, "<", `\u003c`, ">", `\u003e`, "'", `\u0027`)

// escaped writes characters beyond ASCII as \u escapes.
func escaped(text string) string {
	var b strings.Builder
	for _, c := range text {
		if c < utf8.RuneSelf {
			b.WriteRune(c)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, c) {
			b.WriteString(`\u` + strconv.FormatInt(0x10000|int64(unit), 16)[1:])
		}
	}
	return b.String()
}

// words are values that occur in many texts, so they are not searched.
var words = map[string]bool{"true": true, "false": true, "null": true, "none": true, "undefined": true}

func (q *Quotes) add(text string) {
	for _, scheme := range []string{"https://", "http://"} { // a scheme would be a quote in every text with a URL
		text = strings.TrimPrefix(text, scheme)
	}
	if len(text) < minQuote || words[strings.ToLower(text)] || q.isFull {
		return
	}
	if q.grams == nil {
		q.grams, q.short, q.exact = map[uint64]bool{}, map[uint64]bool{}, map[string]bool{}
	}
	if q.size += len(text); q.size > maxQuotes {
		q.HideAll()
		return
	}
	var window uint64
	for i := range len(text) {
		window = window<<8 | uint64(fold(text[i]))
		if i >= gram-1 {
			q.grams[window] = q.grams[window] || i == gram-1 || q.isBinary
		}
	}
	if len(text) < gram {
		q.short[shortKey(window, len(text))] = true
	}
}

// shortKey returns the last bytes of a window, with a 1 in front that tells how many bytes there are.
func shortKey(window uint64, length int) uint64 {
	one := uint64(1) << (8 * length)
	return one | window&(one-1)
}

func isNumber(text string) bool {
	return len(text) <= 64 && (text[0] == '-' || '0' <= text[0] && text[0] <= '9') && json.Valid([]byte(text))
}

func fold(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

type span struct{ begin, end int }

// Text replaces quotes of hidden texts.
func (q *Quotes) Text(text string) string {
	if text == "" || q.IsEmpty() {
		return text
	}
	spans, isAll := q.find(text)
	switch {
	case isAll:
		return Hidden
	case len(spans) == 0:
		return text
	}
	var b strings.Builder
	at := 0
	for _, s := range spans {
		b.WriteString(text[at:s.begin])
		b.WriteString(Hidden)
		at = s.end
	}
	b.WriteString(text[at:])
	return strings.ToValidUTF8(b.String(), string(utf8.RuneError)) // a quote may end within a character
}

// Bytes replaces quotes of hidden texts in bytes, which need not be UTF-8. Nil stays nil.
func (q *Quotes) Bytes(b []byte) []byte {
	if shown := q.Text(string(b)); shown != string(b) {
		return []byte(shown)
	}
	return b
}

// find returns the quotes in a text, in order and disjoint.
func (q *Quotes) find(text string) (spans []span, isAll bool) {
	if q.isFull {
		return nil, true
	}
	begin, head := -1, -1 // where the run of known grams begins, and where a hidden text begins in the run
	endRun := func(end int) {
		if begin >= 0 && end-begin >= minPart {
			head = begin
		}
		if head >= 0 {
			spans = append(spans, span{head, end})
		}
		begin, head = -1, -1
	}
	var window uint64
	for i := range len(text) {
		window = window<<8 | uint64(fold(text[i]))
		for length := minQuote; length < gram; length++ {
			if i+1 >= length && q.short[shortKey(window, length)] {
				spans = append(spans, span{i + 1 - length, i + 1})
			}
		}
		if i < gram-1 {
			continue
		}
		isHead, found := q.grams[window]
		if !found {
			endRun(i)
			continue
		}
		if begin < 0 {
			begin = i + 1 - gram
		}
		if isHead && head < 0 {
			head = i + 1 - gram
		}
	}
	endRun(len(text))
	return merged(spans), false
}

func merged(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return a.begin - b.begin })
	kept := spans[:0]
	for _, s := range spans {
		if last := len(kept) - 1; last >= 0 && s.begin <= kept[last].end {
			kept[last].end = max(kept[last].end, s.end)
			continue
		}
		kept = append(kept, s)
	}
	return kept
}
