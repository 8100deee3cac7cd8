package fingerprint

import (
	"strings"
	"unicode/utf8"
)

// The placeholders of variables in a template.
const (
	varEmail    = "<email>"
	varURL      = "<url>"
	varHost     = "<host>"
	varIP       = "<ip>"
	varTrace    = "<trace>"
	varUUID     = "<uuid>"
	varHash     = "<hash>"
	varDate     = "<date>"
	varDuration = "<duration>"
	varHex      = "<hex>"
	varNumber   = "<number>"
	varID       = "<id>"
	varQuoted   = "<quoted>"
)

var placeholders = []string{
	varEmail, varURL, varHost, varIP, varTrace, varUUID, varHash, varDate, varDuration, varHex, varNumber, varID, varQuoted,
}

// maxRead is the length of a message that is read, in bytes.
const maxRead = 4 * 1024

// Template takes the variables out of a message: "order <number> of <email> not found". It
// returns at most 1 KiB of valid UTF-8 on one line.
func Template(message string) string {
	r := read(message)
	return r.template
}

// reading is what one pass over a message finds.
type reading struct {
	template string
	names    []string // "field currency", "status 404": see names.go
	host     string   // the first host that has a name
	status   bool     // a status of HTTP is among the names
}

// scanner reads a message once, from left to right. It never goes back: it looks ahead by a
// few words at most, and searches for each kind of closing quote in vain only once.
type scanner struct {
	in       string
	pos      int
	out      []byte
	full     bool   // out is as long as a template may be
	last     string // the placeholder that was written last
	lastEnd  int    // where it ends in out
	previous string // the last word
	noun     noun   // see names.go
	start    bool   // a sentence begins
	noSource bool   // no excerpt of Jackson ends in what follows
	inner    bool   // a message in a message is read
	unclosed [len(quotes)]bool
	reading
}

func read(message string) reading {
	r, cut := scan(oneLine(prefix(message, maxRead)))
	// What stood behind a cut is unknown to who reads the template, and may have mattered for
	// what stands before it. So the template is read until it stays the same.
	for range 8 {
		if !cut {
			break
		}
		var again reading
		again, cut = scan(r.template)
		cut = cut || again.template != r.template
		r.template = again.template
	}
	return r
}

// scan reports whether the template was cut.
func scan(message string) (r reading, cut bool) {
	var buffer [maxMessage]byte
	s := scanner{in: message, out: buffer[:0], start: true}
	s.run()
	s.template = strings.TrimRight(string(s.out), " ")
	return s.reading, s.full
}

func (s *scanner) run() {
	for s.pos < len(s.in) {
		s.next()
	}
}

// next reads one quoted text, chunk, space or other character.
func (s *scanner) next() {
	c := s.in[s.pos]
	switch {
	case c == ' ':
		s.pos++
		s.literal(" ")
	case c == '<' && s.placeholder(), c == '[' && (s.source() || s.addressInBrackets()):
	case (c == '"' || c == '\'' || c == '`' || c >= 0x80) && s.quoted():
	default:
		s.chunk()
	}
}

// oneLine returns valid UTF-8 with one space for any number of white and control characters.
func oneLine(message string) string {
	if !utf8.ValidString(message) {
		message = strings.ToValidUTF8(message, "\uFFFD")
	}
	i := 0
	for i < len(message) && (!isSpace(message[i]) || message[i] == ' ' && i > 0 && message[i-1] != ' ') {
		i++
	}
	if i == len(message) {
		return message
	}
	b := append(make([]byte, 0, len(message)), message[:i]...)
	for ; i < len(message); i++ {
		switch {
		case !isSpace(message[i]):
			b = append(b, message[i])
		case len(b) > 0 && b[len(b)-1] != ' ':
			b = append(b, ' ')
		}
	}
	return string(b)
}

func isSpace(c byte) bool { return c <= ' ' || c == 0x7f }

// placeholder keeps a placeholder, so that the template of a template is the same.
func (s *scanner) placeholder() bool {
	for _, p := range placeholders {
		if strings.HasPrefix(s.in[s.pos:], p) {
			s.pos += len(p)
			s.variable(p)
			return true
		}
	}
	return false
}

// source skips the excerpt of the payload in a message of Jackson:
// [Source: (byte[])"{"id": 3, …"[truncated 500 bytes]; line: 1, column: 27].
func (s *scanner) source() bool {
	if s.noSource || !strings.HasPrefix(s.in[s.pos:], "[Source: ") {
		return false
	}
	i := strings.Index(s.in[s.pos:], "; line: ")
	if i < 0 {
		s.noSource = true
		return false
	}
	s.pos += i
	s.literal("[Source")
	return true
}

// addressInBrackets reads "[fd00::1]:9092".
func (s *scanner) addressInBrackets() bool {
	inner, _, ok := strings.Cut(prefix(s.in[s.pos+1:], 64), "]")
	if !ok || !isIPv6(inner) {
		return false
	}
	s.pos += len(inner) + 2
	if s.pos < len(s.in) && s.in[s.pos] == ':' {
		if n := leadingDigits(s.in[s.pos+1:]); n > 0 {
			s.pos += 1 + n
		}
	}
	s.variable(varIP)
	return true
}

// literal writes a part of the message as it is.
func (s *scanner) literal(text string) {
	if s.full {
		return
	}
	s.full = len(s.out)+len(text) > maxMessage
	s.out = append(s.out, prefix(text, maxMessage-len(s.out))...)
}

// variable writes a placeholder. Several of a kind in a list are one, for lists have any length.
func (s *scanner) variable(placeholder string) {
	s.noun = noun{}
	s.start = false
	if s.last == placeholder && s.lastEnd > 0 {
		switch string(s.out[s.lastEnd:]) {
		case "", " ", ",", ", ":
			s.out = s.out[:s.lastEnd]
			return
		}
	}
	if s.full = s.full || len(s.out)+len(placeholder) > maxMessage; s.full {
		return
	}
	s.literal(placeholder)
	s.last, s.lastEnd = placeholder, len(s.out)
}

// punctuation writes a character that belongs to no word.
func (s *scanner) punctuation(text string) {
	s.literal(text)
	switch text {
	case ":", ".", "!", "?", ";":
		s.start = true
	}
	s.noun.after(text)
}

// ahead returns the next two words behind a position, if only white space precedes each.
func (s *scanner) ahead(pos int) (first, second string) {
	first, pos = wordAt(s.in, pos)
	if first != "" {
		second, _ = wordAt(s.in, pos)
	}
	return first, second
}

// wordAt skips white space and reads a word of at most 16 letters. The word must end a chunk,
// for a longer chunk may be a variable.
func wordAt(text string, pos int) (word string, end int) {
	for pos < len(text) && text[pos] <= ' ' {
		pos++
	}
	end = pos
	for end < len(text) && isLetter(text[end]) {
		if end++; end-pos > 16 {
			return "", end
		}
	}
	if !endsChunk(text[end:]) {
		return "", end
	}
	return text[pos:end], end
}

// endsChunk reports whether a text begins with what cannot belong to the word before it.
func endsChunk(text string) bool {
	if text == "" {
		return true
	}
	switch text[0] {
	case ',', ';', ')', ']', '}', '"':
		return true
	case ':', '.', '!', '?':
		return len(text) == 1 || text[1] <= ' '
	}
	return text[0] <= ' '
}
