package fingerprint

import "strings"

// quotes are the opening quotation marks, each with the marks that may close it.
var quotes = [...]struct{ open, close, other string }{
	{open: `"`, close: `"`},
	{open: `'`, close: `'`},
	{open: "`", close: "`", other: "'"}, // Ruby before 3.4 opens with ` and closes with '
	{open: "“", close: "”"},
	{open: "„", close: "“", other: "”"},
	{open: "«", close: "»"},
	{open: "»", close: "«"},
	{open: "‘", close: "’"},
}

// quoted reads a quoted text. It reports false where no quoted text begins.
func (s *scanner) quoted() bool {
	for i, q := range quotes {
		if !strings.HasPrefix(s.in[s.pos:], q.open) {
			continue
		}
		before := s.pos
		s.pos += len(q.open)
		if s.unclosed[i] || i == 1 && before > 0 && isAlnum(s.in[before-1]) {
			return true
		}
		end, size := closeOf(s.in, s.pos, q.close, q.other)
		if s.unclosed[i] = end < 0; end >= 0 {
			text := s.in[s.pos:end]
			s.pos = end + size
			s.quotedText(text, before)
		}
		return true
	}
	return false
}

// closeOf returns where a quoted text ends, and the length of the mark that closes it.
func closeOf(text string, start int, marks ...string) (end, size int) {
	for i := start; i < len(text); i++ {
		if text[i] == '\\' && marks[0] == `"` {
			i++
			continue
		}
		for _, mark := range marks {
			// The apostrophe in "don't" closes nothing.
			if mark != "" && strings.HasPrefix(text[i:], mark) && (mark != "'" || i+1 == len(text) || !isAlnum(text[i+1])) {
				return i, len(mark)
			}
		}
	}
	return -1, 0
}
