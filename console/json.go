package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// token is a piece of formatted JSON. Class is a CSS class, empty for punctuation and white space.
type token struct{ Class, Text string }

// formatJSON writes JSON with line ends and indents, as tokens, and stops after about limit bytes. It works on the text, so
// numbers, escapes, the order of names, and duplicates stay as they are. The content must be valid JSON.
func formatJSON(content []byte, limit int) (tokens []token, isCut bool) {
	f := &jsonFormatter{limit: limit}
	for i := 0; i < len(content); {
		if f.written > limit {
			f.flush()
			return f.tokens, true
		}
		i = f.next(content, i)
	}
	f.flush()
	return f.tokens, f.isCut
}

type jsonFormatter struct {
	tokens  []token
	plain   strings.Builder
	depth   int
	written int
	limit   int
	isCut   bool
}

// next writes the token that begins at i, and returns where the token ends.
func (f *jsonFormatter) next(content []byte, i int) int {
	switch c := content[i]; c {
	case ' ', '\t', '\r', '\n':
		return i + 1
	case '{', '[':
		end := skipSpace(content, i+1)
		if end < len(content) && content[end] == c+2 { // c+2 is the closing bracket, so the object or list is empty
			f.write(string(c) + string(c+2))
			return end + 1
		}
		f.depth++
		f.write(string(c))
		f.line()
		return end
	case '}', ']':
		f.depth--
		f.line()
		f.write(string(c))
		return i + 1
	case ',':
		f.write(",")
		f.line()
		return i + 1
	case ':':
		f.write(": ")
		return i + 1
	case '"':
		end := stringEnd(content, i)
		class := "js"
		if next := skipSpace(content, end); next < len(content) && content[next] == ':' {
			class = "jk"
		}
		f.add(class, content[i:end])
		return end
	default:
		end := i
		for end < len(content) && !strings.ContainsRune(" \t\r\n,]}", rune(content[end])) {
			end++
		}
		class := "jn"
		if c == 't' || c == 'f' || c == 'n' {
			class = "jl"
		}
		f.add(class, content[i:end])
		return max(end, i+1)
	}
}

func (f *jsonFormatter) write(text string) {
	f.plain.WriteString(text)
	f.written += len(text)
}

// line begins a line. The indent is limited, so that deep nesting does not make the output much longer than the input.
func (f *jsonFormatter) line() { f.write("\n" + strings.Repeat("  ", min(f.depth, 40))) }

func (f *jsonFormatter) flush() {
	if f.plain.Len() > 0 {
		f.tokens = append(f.tokens, token{Text: f.plain.String()})
		f.plain.Reset()
	}
}

// add writes a value that has a class. It cuts a value that does not fit into the limit.
func (f *jsonFormatter) add(class string, text []byte) {
	f.flush()
	if left := f.limit - f.written; len(text) > left {
		shown := cutText(text, max(left, 0)+1)
		f.written, f.isCut, text = f.limit, len(shown) < len(text), shown
	}
	f.written += len(text)
	f.tokens = append(f.tokens, token{class, string(text)})
}

func skipSpace(content []byte, i int) int {
	return len(content) - len(bytes.TrimLeft(content[i:], " \t\r\n"))
}

func stringEnd(content []byte, i int) int {
	for i++; i < len(content); i++ {
		switch content[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(content)
}

// indentJSON formats JSON as a text for a form. JSON that would grow too much stays as it is.
func indentJSON(content []byte) string {
	tokens, isCut := formatJSON(content, 4*maxEdit)
	if isCut {
		return unixLines(string(content))
	}
	var text strings.Builder
	for _, t := range tokens {
		text.WriteString(t.Text)
	}
	return text.String()
}

// isJSON tells whether a value is shown as JSON: an object, a list or a string. A lone number is shown as text.
func isJSON(content []byte) bool {
	first := skipSpace(content, 0)
	return first < len(content) && strings.ContainsRune(`{["`, rune(content[first])) && json.Valid(content)
}

// cutText returns at most the first limit bytes, without a part of a character at the end.
func cutText[T string | []byte](text T, limit int) T {
	if len(text) <= limit {
		return text
	}
	end := limit
	for end > 0 && end > limit-utf8.UTFMax+1 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// visible writes a character as an escape if a browser does not show it, or if it changes how the text around it looks.
func visible(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || r == '\t':
			out.WriteRune(r)
		case r == '\r':
			out.WriteString(`\r`)
		case r < ' ' || r >= 0x7f && r < 0xa0 || isTurning(r):
			fmt.Fprintf(&out, `\u{%X}`, r)
		default:
			out.WriteRune(r) // a byte that is no UTF-8 becomes U+FFFD
		}
	}
	return out.String()
}
