package fingerprint

import (
	"cmp"
	"slices"
	"strings"
)

const (
	maxRead  = 4 * 1024 // bytes of a message that are read
	maxWords = 5        // of one part
	maxParts = 16
	enough   = 3 // words that tell failures apart
)

// reading has the findings of one pass over a message.
type reading struct {
	words   []string // of the innermost part that says enough: see innermost
	context []string // of the last part that says more than that a service is away
	names   []string // "field currency", "status 404": see names.go
	host    string   // the first host that has a name
	inURL   bool     // a URL has the host
}

// part is the text up to a colon: an error is often "context: context: reason".
type part struct {
	words    []string
	chunks   int // words, names and variables
	variable bool
	closed   bool // no more words are read, since data follow
	status   bool // it has a status of HTTP
}

// scanner reads a message once, from left to right. It never goes back. It looks ahead by two words at most. If it has once
// found no closing quote of a kind, it does not search for this kind again.
type scanner struct {
	in       string
	pos      int
	depth    int // of brackets
	part     part
	parts    []part
	done     bool   // the first line with words has ended
	start    bool   // a sentence begins
	previous string // the last word, in lower case
	before   string // the word before previous
	noun     noun   // see names.go
	value    bool   // "=" was read
	inner    bool   // the text is a message in a message
	unclosed [len(quotes)]bool
	reading
}

// read finds the words, names and hosts of a message. Variables are left out: words with digits,
// e-mails, hosts, URLs, paths, quoted texts, names of people, and texts in brackets.
func read(message string) reading {
	s := scanner{in: strings.ReplaceAll(strings.ToValidUTF8(prefix(message, maxRead), "\uFFFD"), "\u00A0", " "), start: true}
	s.run()
	s.endPart()
	s.innermost()
	return s.reading
}

func (s *scanner) run() {
	for s.pos < len(s.in) {
		switch c := s.in[s.pos]; {
		case c == '\n':
			s.endLine()
		case c <= ' ':
			s.pos++
		case (c == '"' || c == '\'' || c == '`' || c >= 0x80) && s.quoted():
		case chunkBytes[c]:
			s.chunk()
		default:
			s.pos++
			s.punctuation(c)
		}
	}
}

// endLine ends a line. The words of later lines do not count, if this line or an earlier line has words.
func (s *scanner) endLine() {
	s.pos++
	s.start = true
	if s.endPart(); len(s.parts) > 0 {
		s.done = true
	}
}

// chunkBytes are the characters that can be part of a chunk: a word, a number, a path, an
// address. White space, quotes and brackets end a chunk.
var chunkBytes = func() (table [256]bool) {
	for c := range table {
		table[c] = c > ' ' && c != 0x7f && strings.IndexByte("\"'`()[]{}<>,;=|", byte(c)) < 0
	}
	return table
}()

func (s *scanner) chunk() {
	start := s.pos
	for s.pos < len(s.in) && chunkBytes[s.in[s.pos]] {
		s.pos++
	}
	c := s.in[start:s.pos]
	if scheme := strings.Index(c, "://"); scheme > 0 {
		s.url(start + scheme + len("://"))
		return
	}
	core := strings.TrimLeft(c, ".:!?#")
	core = cmp.Or(core, c)
	s.start = s.start || len(core) < len(c)
	end := len(strings.TrimRight(core, ".:!?"))
	if end > 0 {
		s.whole(core[:end], core[end:])
	}
	for ; end < len(core); end++ {
		s.punctuation(core[end])
	}
}

// url reads an address to its end, which a bracket, a quote, a backslash or white space marks.
func (s *scanner) url(host int) {
	s.pos = host
	for s.pos < len(s.in) && s.in[s.pos] > ' ' && strings.IndexByte("\"'`<>)]}\\", s.in[s.pos]) < 0 {
		s.pos++
	}
	address := strings.TrimRight(s.in[host:s.pos], ".,:;!?")
	s.pos = host + len(address)
	s.foundHost(hostOfURL(address), true)
	s.variable()
}

// whole reads a chunk without the punctuation around it.
func (s *scanner) whole(c, after string) {
	if s.depth == 0 {
		s.part.chunks++
	}
	switch {
	case s.code(c):
	case strings.IndexByte(c, '@') >= 0:
		s.variable()
	case hostIn(c) != "":
		s.foundHost(hostIn(c), false)
		s.variable()
	case s.named(c, after):
		s.word(c)
	case hasDigit(c):
		s.variable()
		if unit, end := wordAt(s.in, s.pos); units[unit] {
			s.pos = end
		}
	case isLetter(c[0]) || c[0] == '_':
		s.word(c)
	}
}

// word reads a word of the sentence.
func (s *scanner) word(c string) {
	lower := strings.ToLower(c)
	if s.before, s.previous = s.previous, lower; s.start {
		s.before, s.start = "", false
	}
	if n := nounOf(lower); n.text != "" {
		s.noun = n
	} else if (lower == "including" || lower == "following") && s.pos < len(s.in) && s.in[s.pos-1] == ':' {
		s.noun = nounOf("properties")
	} else if s.before == "insert" && lower == "into" || s.before == "delete" && lower == "from" {
		s.noun = nounOf("table")
		s.noun.strong = true
	}
	key := s.pos < len(s.in) && s.in[s.pos] == '='
	switch {
	case s.value, key, hasDigit(c):
		s.value = false
	case len(s.part.words) > 1 && s.depth == 0 && (lower == "for" || prepositions[lower] && s.pos+1 < len(s.in) && !isLetter(s.in[s.pos+1])):
		s.part.closed = true // data follow
	case s.depth == 0 && !s.part.closed && isText(c, s.part.chunks == 1):
		s.part.words = append(s.part.words, lower)
		s.part.closed = len(s.part.words) == maxWords
	}
}

var units = set("ms s sec secs second seconds min minute minutes h hour hours day days millis milliseconds bytes")

var prepositions = set("after at in on within with of from by to since")

// noise are words that introduce an error, and say nothing about the error.
var noise = set("panic recovered runtime error errors occurred an has fatal exception uncaught caused by err")

// isText tells a word that a programmer wrote from a word that is data, such as the name of a person or a country. The
// first word of a part may have a capital.
func isText(c string, first bool) bool {
	if len(c) < 2 || strings.IndexByte(c, '/') >= 0 {
		return false
	}
	capitals := 0
	for i := range len(c) {
		if isUpper(c[i]) {
			capitals++
		}
	}
	return capitals == 0 || first && capitals == 1 && isUpper(c[0]) || capitals >= 4 && capitals == len(c) || isMixed(c)
}

// variable reads a part of the message that is data.
func (s *scanner) variable() {
	s.part.variable = s.part.variable || s.depth == 0
	s.start, s.value = false, false
	s.noun = noun{}
}

// punctuation reads a character that belongs to no word.
func (s *scanner) punctuation(c byte) {
	switch c {
	case '(', '[', '{':
		s.depth++
		if strings.HasPrefix(s.in[s.pos:], "Source: ") {
			s.pos += max(0, strings.Index(s.in[s.pos:], "; line: ")) // Jackson's excerpt of the payload
		}
	case ')', ']', '}':
		s.depth = max(0, s.depth-1)
	case '=':
		s.value = s.pos > 1 && s.in[s.pos-2] > ' ' && s.pos < len(s.in) && s.in[s.pos] > ' '
	case ':':
		s.start = true
		if s.depth == 0 && (s.pos == len(s.in) || s.in[s.pos] <= ' ') {
			s.endPart()
		}
	case ';', '.', '!', '?':
		s.start = true
		s.endSentence()
	case ',':
		s.endSentence()
	}
	s.noun.after(c)
}

// endSentence ends the words of a part that has enough words, since details follow.
func (s *scanner) endSentence() {
	s.part.closed = s.part.closed || s.depth == 0 && len(s.part.words) >= enough
}

// endPart ends a part, and keeps the part if it has words beside noise.
func (s *scanner) endPart() {
	p := s.part
	s.part, s.value = part{}, false
	switch {
	case s.done || s.inner:
	case slices.ContainsFunc(p.words, func(word string) bool { return !noise[word] }):
		if len(s.parts) == maxParts {
			s.parts = append(s.parts[:0], s.parts[1:]...)
		}
		s.parts = append(s.parts, p)
	}
}

// innermost takes the words of the last part, and of the parts before it until there are enough words. Callers may or may
// not add their contexts in front: "handle order 17: load tariff: …".
func (s *scanner) innermost() {
	if i := slices.IndexFunc(s.parts, func(p part) bool { return p.status }); i >= 0 {
		s.parts = s.parts[:i+1] // the body of the answer follows
	}
	for i := len(s.parts) - 1; i >= 0 && len(s.words) < enough; i-- {
		// "offset 17" may or may not stand before "checksum mismatch". But "not found" needs "order 17" in front.
		if p := &s.parts[i]; len(s.words) < 2 || len(p.words) > 1 || !p.variable || stopWords[s.words[0]] {
			s.words = slices.Concat(p.words, s.words)
		}
	}
	for i := enough; i < len(s.words); i++ {
		if last := s.words[i-1]; !stopWords[last] || prepositions[last] { // "has no lines" needs all words
			s.words = s.words[:i]
		}
	}
	if i := slices.IndexFunc(s.parts, isSystemCall); i >= 0 {
		s.parts = s.parts[:i] // the rest depends on the language of the machine
	}
	for i := len(s.parts) - 1; i >= 0 && len(s.context) == 0; i-- {
		if p := &s.parts[i]; !p.variable || len(p.words) > 1 {
			s.context = slices.DeleteFunc(p.words, func(word string) bool { return outageWords[word] || stopWords[word] })
		}
	}
}

// isSystemCall recognizes "dial tcp 10.1.2.3:80" and "rpc error", with which Go begins its report.
func isSystemCall(p part) bool {
	first := strings.Join(p.words[:min(2, len(p.words))], " ")
	return slices.Contains([]string{"dial tcp", "read tcp", "write tcp", "rpc error"}, first)
}

// outageWords are words of network code. They differ by the moment at which a service went away.
var outageWords = set(`dial tcp read write connect connection connecting refused reset peer timed out timeout i/o io context deadline exceeded such host
lookup eof unexpected get post put delete patch request canceled cancelled rpc net/http unavailable desc code transport unreachable reachable
route exception remote while waiting awaiting headers after upstream max retries url httpconnectionpool httpsconnectionpool reply sending
broken pipe closed aborted further information network is operation response socket client server i/o-error fetch econnrefused etimedout
enotfound econnreset getaddrinfo hang up service call calling name or resolution temporary failure`)

// wordAt skips white space and reads a word of at most 16 letters.
func wordAt(text string, pos int) (word string, end int) {
	for pos < len(text) && text[pos] <= ' ' {
		pos++
	}
	end = pos
	for end < len(text) && end-pos < 16 && (isLetter(text[end]) || text[end] == '\'' && end > pos) {
		end++
	}
	return text[pos:end], end
}

// wordBefore returns the word that ends a text, without the ":" or "=" behind it.
func wordBefore(text string) string {
	text = strings.TrimRight(prefix(text[max(0, len(text)-maxIdentifier):], maxIdentifier), " :=")
	return text[strings.LastIndexAny(text, " \t\n|,;([{")+1:]
}

// foundHost keeps the first host that is a name and no IP address.
func (s *scanner) foundHost(host string, inURL bool) {
	if s.host == "" && host != "" && len(host) <= 253 && isLetter(host[0]) {
		s.host, s.inURL = withoutDigits(host), inURL
	}
}

// withoutDigits makes one name of the names of all replicas, such as db-0.shop and db-1.shop.
func withoutDigits(name string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return '#'
		}
		return r
	}, name)
}

func hostOfURL(address string) string {
	if i := strings.IndexAny(address, "/?#"); i >= 0 {
		address = address[:i]
	}
	_, host := splitLast(address, '@')
	host, _ = cutLine(host)
	return host
}

// hostIn returns the host of "pricing.internal" or "pricing.shop:8080".
func hostIn(c string) string {
	name, hasPort := cutLine(c)
	dot := strings.LastIndexByte(name, '.')
	if name == "" || !isLower(name[0]) || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" || dot+1 == len(name) {
		return ""
	}
	if hasPort || dot > 0 && topLevel[name[dot+1:]] {
		return name
	}
	return ""
}

// topLevel are the last labels by which a host is recognized without a port.
var topLevel = set(`
com net org edu gov io dev app cloud eu de uk fr nl ch at se no dk fi it es pl us ca au jp cn in br info biz
internal local localhost lan intra intranet corp svc cluster test example invalid home arpa
`)
