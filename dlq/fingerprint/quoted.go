package fingerprint

import "strings"

// quotes are the opening quotation marks, each with those that may close it.
var quotes = [...]struct{ open, close, other string }{
	{open: `"`, close: `"`},
	{open: `'`, close: `'`},
	{open: "`", close: "`", other: "'"}, // Ruby opens with one and closes with the other
	{open: "“", close: "”"},
	{open: "„", close: "“", other: "”"},
	{open: "«", close: "»"},
	{open: "»", close: "«"},
	{open: "‘", close: "’"},
	{open: "‹", close: "›"},
}

func isTypographic(text string) bool {
	for i := 3; i < len(quotes); i++ {
		if strings.HasPrefix(text, quotes[i].open) || strings.HasPrefix(text, quotes[i].close) {
			return true
		}
	}
	return false
}

// quoted reads a quoted text. It reports false where no quoted text begins.
func (s *scanner) quoted() bool {
	for i := range quotes {
		q := &quotes[i]
		if !strings.HasPrefix(s.in[s.pos:], q.open) {
			continue
		}
		if s.unclosed[i] || i == 1 && s.pos > 0 && (isAlnum(s.in[s.pos-1]) || s.in[s.pos-1] == '>') {
			return false
		}
		start := s.pos + len(q.open)
		end, size := closeOf(s.in, start, q.close, q.other)
		if end < 0 {
			s.unclosed[i] = true
			return false
		}
		before := s.pos
		s.pos = end + size
		if i == 0 && strings.HasPrefix(s.in[end:], `"."`) && s.path(start, end) {
			return true
		}
		s.quotedText(s.in[start:end], before)
		return true
	}
	return false
}

// closeOf returns where a quoted text ends, and the length of the mark that closes it.
func closeOf(text string, start int, mark, other string) (end, size int) {
	for i := start; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && mark == `"`:
			i++
		case c != mark[0] && (other == "" || c != other[0]):
		case strings.HasPrefix(text[i:], mark) && (mark != "'" || closesApostrophe(text, i)):
			return i, len(mark)
		case other != "" && strings.HasPrefix(text[i:], other) && (other != "'" || closesApostrophe(text, i)):
			return i, len(other)
		}
	}
	return -1, 0
}

// closesApostrophe tells a closing quote from the apostrophe in "don't". What follows must not
// be, or become, a variable.
func closesApostrophe(text string, i int) bool {
	return i+1 == len(text) || !isAlnum(text[i+1]) && text[i+1] != '<'
}

// quotedText writes a quoted text: a variable, unless it is a name in the program.
func (s *scanner) quotedText(text string, before int) {
	name, ok := s.quotedName(text, before)
	if !ok || s.unclosed[0] { // the marks of a name would close an open one
		s.foundHost(hostInQuotes(text))
		s.quotedSentence(text)
		s.variable(varQuoted)
		return
	}
	s.literal(`"`)
	s.literal(name)
	s.literal(`"`)
	s.start = false
}

// quotedSentence takes the names from a message in a message, such as
// (1062, "Duplicate entry 'ada' for key 'customers.email'").
func (s *scanner) quotedSentence(text string) {
	if s.inner || len(text) > maxMessage || strings.IndexByte(text, ' ') < 0 {
		return
	}
	inner := scanner{in: text, out: make([]byte, 0, len(text)), start: true, inner: true}
	inner.run()
	for _, name := range inner.names {
		s.keepName(name)
	}
	s.status = s.status || inner.status
	s.foundHost(inner.host)
}

func hostInQuotes(text string) string {
	switch {
	case len(text) > maxName:
		return ""
	case strings.Contains(text, "://"):
		return hostOfURL(text)
	}
	return hostIn(text)
}

// quotedName returns the name in a quoted text. Quoted text is a name only where the words
// around it say so.
func (s *scanner) quotedName(text string, before int) (string, bool) {
	first, second := s.ahead(s.pos)
	if first == "is" && second == "null" && (equal(s.previous, "because") || equal(s.previous, "of")) {
		if expression, ok := nullExpression(text); ok {
			s.addName("null", lastPart(expression))
			return expression, true
		}
	}
	name, digits, ok := identifier(strings.TrimSpace(text))
	if !ok {
		return "", false
	}
	switch {
	case s.isKey(before):
		s.noun = nounOf(name) // the key can be the noun of its value
		if list := strings.TrimLeft(s.in[s.pos+1:], " "); s.noun.text == "" && strings.HasPrefix(list, "[") {
			s.addName(nounField, name) // {"currency": ["is missing"]}
		}
		return name, !digits
	case s.noun.text != "" && !s.noun.named && (!digits || s.noun.digits):
		s.addName(s.noun.text, name)
		s.noun.named = true
		return name, true
	case digits:
		return "", false
	case isPredicate(first, second), s.isSubscript(), before == 0 && strings.TrimSpace(s.in[s.pos:]) == "":
		s.addName(nounField, name)
		return name, true
	}
	return "", false
}

// isKey recognizes a key of JSON.
func (s *scanner) isKey(before int) bool {
	if s.in[before] != '"' && s.in[before] != '\'' || s.pos == len(s.in) || s.in[s.pos] != ':' {
		return false
	}
	object := strings.TrimSuffix(s.in[:before], " ")
	return strings.HasSuffix(object, "{") || strings.HasSuffix(object, ",")
}

// isSubscript recognizes the "amount" of Order["amount"].
func (s *scanner) isSubscript() bool {
	n := len(s.out)
	return n > 1 && s.out[n-1] == '[' && isLetter(s.out[n-2]) && s.pos < len(s.in) && s.in[s.pos] == ']'
}
