package fingerprint

import "strings"

// chunkBytes are the characters that can be part of a chunk: a word, a number, a path, an
// address. White space, quotes and brackets end a chunk.
var chunkBytes = func() (table [256]bool) {
	for c := range table {
		table[c] = c > ' ' && c != 0x7f && strings.IndexByte("\"'`()[]{}<>,;=|", byte(c)) < 0
	}
	return table
}()

// chunk reads a chunk, or the one character that is none.
func (s *scanner) chunk() {
	start := s.pos
	if !chunkBytes[s.in[start]] {
		s.pos++
		s.punctuation(s.in[start:s.pos])
		return
	}
	s.pos = s.chunkEnd(start)
	c := s.in[start:s.pos]
	// A part of a chunk is not judged as a whole, also when the rest is a placeholder already.
	part := s.last != "" && s.lastEnd == len(s.out)
	if scheme := strings.Index(c, "://"); !part && scheme > 0 && isLetter(c[scheme-1]) {
		s.url(start, start+scheme+len("://"))
		return
	}
	part = part || s.pos < len(s.in) && s.in[s.pos] == '<'
	// Punctuation around a chunk belongs to the sentence.
	for len(c) > 1 && strings.IndexByte(".:!?#", c[0]) >= 0 {
		s.punctuation(c[:1])
		c = c[1:]
	}
	if len(c) == 1 && !isAlnum(c[0]) {
		s.punctuation(c)
		return
	}
	end := len(c)
	for end > 1 && strings.IndexByte(".:!?", c[end-1]) >= 0 {
		end--
	}
	if part {
		s.parts(c[:end])
	} else {
		s.whole(c[:end])
	}
	for ; end < len(c); end++ {
		s.punctuation(c[end : end+1])
	}
}

// chunkEnd also accepts a comma between digits and an apostrophe between letters.
func (s *scanner) chunkEnd(start int) int {
	i := start
	for ; i < len(s.in); i++ {
		c := s.in[i]
		if chunkBytes[c] {
			if c >= 0x80 && i > start && isTypographic(s.in[i:]) {
				break
			}
			continue
		}
		if i == start || i+1 == len(s.in) {
			break
		}
		before, after := s.in[i-1], s.in[i+1]
		if c == ',' && isDigit(before) && isDigit(after) || c == '\'' && isLetter(before) && isLetter(after) {
			continue
		}
		break
	}
	return i
}

// url reads an address to its end, which a bracket, a quote, a backslash or white space marks.
func (s *scanner) url(start, host int) {
	end := host
	for end < len(s.in) && s.in[end] > ' ' && strings.IndexByte("\"'`<>)]}\\", s.in[end]) < 0 {
		end++
	}
	for end > host && strings.IndexByte(".,:;!?", s.in[end-1]) >= 0 {
		end--
	}
	address := s.in[start:end]
	s.pos = end
	s.foundHost(hostOfURL(address))
	s.variable(varURL)
}

func hostOfURL(address string) string {
	_, host, _ := strings.Cut(address, "://")
	if i := strings.IndexAny(host, "/?#"); i >= 0 {
		host = host[:i]
	}
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		host = host[i+1:]
	}
	host, _, _ = cutLine(host)
	return host
}

// whole writes a chunk that as a whole is one variable, else its parts.
func (s *scanner) whole(c string) {
	switch {
	case len(c) == 5 && s.isSQLState():
		s.literal(c)
	case isDigit(c[0]) || (c[0] == '-' || c[0] == '+') && len(c) > 1 && isDigit(c[1]):
		s.numeric(c)
	case strings.IndexByte(c, '@') > 0 && isEmail(c):
		s.variable(varEmail)
	case strings.IndexByte(c, ':') >= 0 && isIPv6(c):
		s.variable(varIP)
	case isISODuration(c):
		s.variable(varDuration)
	default:
		if hostIn(c) != "" {
			s.variable(varHost)
			return
		}
		s.named(c)
		s.parts(c)
	}
}

// numeric writes a chunk that begins with a digit or with a sign and a digit.
func (s *scanner) numeric(c string) {
	switch {
	case isIPv4(c):
		s.variable(varIP)
	case isDate(c):
		s.variable(varDate)
	case isDuration(c):
		s.variable(varDuration)
	case isNumber(c):
		s.number(c)
	case isIPv6(c):
		s.variable(varIP)
	default:
		if c[0] == '-' || c[0] == '+' {
			s.literal(c[:1])
			c = c[1:]
		}
		s.parts(c)
	}
}

// number writes a number, unless it is one of the few that tell causes apart.
func (s *scanner) number(c string) {
	if s.keepNumber(c) {
		s.literal(c)
		s.start = false
		return
	}
	if first, _ := wordAt(s.in, s.pos); isUnit(first) && s.pos < len(s.in) && s.in[s.pos] <= ' ' {
		_, s.pos = wordAt(s.in, s.pos)
		s.variable(varDuration)
		return
	}
	s.variable(varNumber)
}

// parts writes the runs of letters and digits in a chunk, and what stands between them.
func (s *scanner) parts(c string) {
	if isWord(c) && classify(c) == "" {
		if isDateWord(c) && s.dateFollows() {
			s.variable(varDate)
			return
		}
		s.literal(c)
		s.word(c)
		return
	}
	for i := 0; i < len(c); {
		j := i
		for j < len(c) && isAlnum(c[j]) {
			j++
		}
		switch {
		case j == i:
			j++
			s.punctuation(c[i:j])
		case len(c) >= i+36 && isUUID(c[i:i+36]) && (len(c) == i+36 || !isAlnum(c[i+36])):
			j = i + 36
			s.variable(varUUID)
		default:
			j = s.part(c, i, j)
		}
		i = j
	}
}

// part writes the run c[i:j] and returns its end.
func (s *scanner) part(c string, i, j int) int {
	run := c[i:j]
	switch kind := classify(run); {
	case i > 0 && c[i-1] == '@' && len(run) >= 4 && isHex(run):
		s.variable(varHex) // Java: Object@1b2c3d
	case kind == varNumber:
		if s.keepPart(c, i) {
			s.literal(run)
			return j
		}
		j = numberEnd(c, j)
		s.variable(varNumber)
	case kind != "":
		s.variable(kind)
	case isDigit(run[len(run)-1]):
		word := strings.TrimRight(run, "0123456789")
		s.literal(word)
		s.previous = word
		j = numberEnd(c, j)
		s.variable(varNumber)
	case isDigit(run[0]):
		s.variable(varNumber)
		s.previous = strings.TrimLeft(run, "0123456789")
		s.literal(s.previous)
	default:
		s.literal(run)
		s.previous = run
		if j == len(c) && strings.EqualFold(run, nounConstraint) {
			s.noun = nounOf(run) // "Unique-Constraint"
		}
	}
	return j
}

// numberEnd skips what follows the first digits of a number, as in "1.2.3".
func numberEnd(c string, j int) int {
	for j+1 < len(c) && (c[j] == '.' || c[j] == ',') && isDigit(c[j+1]) {
		j += 1 + leadingDigits(c[j+1:])
	}
	return j
}

// isWord reports whether a chunk is a word of the sentence, and no name of the program.
func isWord(c string) bool {
	for i := range len(c) {
		if !isLetter(c[i]) && c[i] != '\'' {
			return false
		}
	}
	return true
}
