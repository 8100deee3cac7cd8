package fingerprint

import (
	"regexp"
	"slices"
	"strings"
)

const (
	maxIdentifier  = 128 // bytes of one name
	maxNames       = 8
	nounField      = "field"
	nounCode       = "code"
	nounType       = "type"
	nounColumn     = "column"
	nounMethod     = "method"
	nounConstraint = "constraint"
	nounStatus     = "status"
)

// noun is a word that says that the next word or quoted text is a name in the program:
// field "currency", constraint [orders_pkey], parameter: sku.
type noun struct {
	text   string
	strong bool // an ordinary word can be the name
	digits bool // the name may have digits
	quoted bool // the name must be quoted
	gap    int  // words since the noun
	named  bool // a name was read; further names may follow in a list
}

// nouns are the words for each kind of name.
var nouns = func() map[string]noun {
	all := map[string]noun{}
	for words, n := range map[string]noun{
		`field fields property properties parameter parameters param argument arguments attribute attributes
		propertypath`: {text: nounField, strong: true},
		"column columns spalte colonne columna coluna":        {text: nounColumn, strong: true, digits: true},
		"constraint contrainte restricción restrição vincolo": {text: nounConstraint, strong: true, digits: true},
		"index table relation":                                {text: "table", digits: true},
		"reading key path element variable header":            {text: nounField},
		"method function calling":                             {text: nounMethod},
		"invoke":                                              {text: nounMethod, quoted: true},
		"class type schema subject module bean event command": {text: nounType},
		"code errorcode error_code sqlstate errno":            {text: nounCode, digits: true},
	} {
		for word := range strings.FieldsSeq(words) {
			all[word] = n
		}
	}
	return all
}()

// nounOf returns the noun of a word, or the zero value for a word that is no noun.
func nounOf(word string) noun {
	if strings.HasSuffix(word, "-constraint") {
		word = nounConstraint
	}
	return nouns[word]
}

// after decides by the next character whether the noun still waits for a name.
func (n *noun) after(c byte) {
	switch c {
	case ',':
		if n.named { // another name of the same kind follows
			n.named, n.gap = false, 0
			return
		}
	case '=':
		if !n.named && n.text != nounType {
			return
		}
	case ':':
		if !n.named {
			return
		}
	case '(', '[':
		if !n.named {
			n.strong = true
			return
		}
	}
	*n = noun{}
}

// named keeps a chunk that is a name in the program, and reports whether it is a name.
func (s *scanner) named(c, after string) bool {
	pending := &s.noun
	if isIdentifier(c) {
		digits := hasDigit(c)
		switch {
		case strings.HasPrefix(c, "$.") && s.has(nounField): // the path of a field that is named already
		case digits && (!pending.digits || pending.text == nounCode && (len(c) > 8 || s.isDataCode())):
		case pending.text == nounConstraint && !strings.ContainsAny(c, "_."):
		case pending.text != "" && !pending.named && !pending.quoted &&
			(isCodeShaped(c) || pending.strong && pending.gap == 0 && !stopWords[strings.ToLower(c)]):
			s.addName(pending.text, c)
			s.noun.named = true
			return true
		case strings.HasPrefix(c, "$."), (after == "" || after == ":") && s.isSubject(c), after == ":" && s.isListed(c):
			s.addName(nounField, c)
			return true
		case s.isCode(c, after):
			s.addName(nounCode, c)
			return true
		}
	}
	if pending.text != "" {
		if pending.gap++; pending.named || pending.gap > 3 || !stopWords[strings.ToLower(c)] {
			s.noun = noun{}
		}
	}
	return false
}

// code reads the numbers that tell causes apart: a status of HTTP, a state of SQL, an error code.
func (s *scanner) code(c string) bool {
	switch {
	case strings.HasPrefix(c, "ORA-"):
		s.addName(nounCode, c)
	case s.previous == "sqlstate" && len(c) == 5, (s.previous == "code" || s.previous == "errno") && s.isErrorCode(c):
		s.addName(nounCode, c)
	case isStatus(c) && s.saysStatus():
		s.addName(nounStatus, c)
		s.part.status = !s.inner
	default:
		return false
	}
	s.noun, s.start, s.previous = noun{}, false, ""
	return true
}

func (s *scanner) isErrorCode(c string) bool {
	return !s.isDataCode() && len(c) <= 6 && strings.Trim(c, "0123456789") == "" && !isStatus(c)
}

func isStatus(c string) bool {
	return len(c) == 3 && (c[0] == '4' || c[0] == '5') && isDigit(c[1]) && isDigit(c[2])
}

// saysStatus reports whether the words around a number say that it is a status.
func (s *scanner) saysStatus() bool {
	if key := wordBefore(strings.TrimRight(s.in[:s.pos], ".:!?0123456789")); isMixed(key) && !statusWords[strings.ToLower(key)] {
		return false // BytePositionInLine: 404
	}
	opens := s.depth == 0 || s.pos > 3 && strings.IndexByte("[(", s.in[s.pos-4]) >= 0
	if statusWords[s.previous] || s.part.chunks <= 1 && len(s.part.words) == 0 && !s.inner && opens {
		return true
	}
	pos := s.pos
	for pos < len(s.in) && pos < s.pos+4 && strings.IndexByte(" :(\"", s.in[pos]) >= 0 {
		pos++
	}
	next, _ := wordAt(s.in, pos)
	return reasons[next]
}

var (
	statusWords = set("status code http statuscode responded response returned got with answered received replied")
	reasons     = set(`Unauthorized Forbidden Conflict Gone Locked Unprocessable Not Bad Internal Client Server Service Gateway Request Method Too
Payload Payment Precondition Unsupported`)
	grpcCodes = set("CANCELLED UNKNOWN UNAUTHENTICATED ABORTED UNIMPLEMENTED INTERNAL UNAVAILABLE")
)

// isCode recognizes the code in "NOT_FOUND: no such order" and "declined: CARD_EXPIRED".
func (s *scanner) isCode(name, after string) bool {
	inBrackets := s.pos < len(s.in) && s.in[s.pos] == ')' && strings.HasSuffix(s.in[:s.pos-len(name)], "(")
	if !s.start && !inBrackets || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "" || !grpcCodes[name] && strings.IndexByte(name, '_') <= 0 {
		return false
	}
	return s.pos == len(s.in) || strings.HasPrefix(after, ":") || s.in[s.pos] == ')'
}

// isSubject recognizes the name in "currency is required" and in "currency Field required".
func (s *scanner) isSubject(name string) bool {
	first, end := wordAt(s.in, s.pos)
	second, _ := wordAt(s.in, end)
	return isPredicate(first, second) && second != "have" && !collections[name] && (s.start || isUpper(first[0]) || isCodeShaped(name))
}

// isListed recognizes the name in " -- Quantity: is too large", as FluentValidation lists failures.
func (s *scanner) isListed(name string) bool {
	return strings.HasSuffix(s.in[:s.pos-len(name)-1], "\n -- ")
}

// collections are the subjects in texts such as "List is empty". The subject differs by the version of the library.
var collections = set("List Collection Array Sequence Iterable Map Set Queue Stack Deque")

// isPredicate recognizes the words about a field that breaks a rule.
func isPredicate(first, second string) bool {
	return predicates[first] || len(first) < 7 && predicates[first+"-"+second]
}

var predicates = set(`must can't may-not may-be cannot-be cannot-not should-not should-be is-required is-missing is-null is-nil is-undefined is-blank
is-empty is-mandatory is-a has-already failed-on Field-required field-required Input-should`)

// quotedText reads a quoted text: a variable, unless it is a name in the program.
func (s *scanner) quotedText(text string, before int) {
	if !s.quotedName(text, before) {
		if len(text) <= maxName && s.host == "" {
			if _, address, ok := strings.Cut(text, "://"); ok {
				s.foundHost(hostOfURL(address), true)
			} else {
				s.foundHost(hostIn(text), false)
			}
		}
		s.quotedSentence(text)
		s.variable()
	}
	s.start, s.value, s.previous = false, false, ""
}

// quotedSentence takes the names from a message in a message, such as
// (1062, "Duplicate entry 'ada' for key 'customers.email'").
func (s *scanner) quotedSentence(text string) {
	if s.inner || strings.IndexByte(text, ' ') < 0 {
		return
	}
	inner := scanner{in: text, start: true, inner: true}
	inner.run()
	for _, name := range inner.names {
		s.keepName(name)
	}
	s.foundHost(inner.host, inner.inURL)
}

// quotedName keeps a quoted text that is a name, and reports whether it is a name. A quoted text is a name if the words
// around it say so, or if it is written as in a program.
func (s *scanner) quotedName(text string, before int) bool {
	name := strings.TrimSpace(text)
	if s.noun.text == nounMethod && !s.noun.named {
		name, _, _ = strings.Cut(name, "(") // shop.Orders.find(java.lang.String)
		_, name = splitLast(name, '.')
	}
	if s.noun.text == nounColumn || s.noun.text == nounConstraint || s.pos+2 < len(s.in) && s.in[s.pos:s.pos+2] == `."` {
		name = s.path(name)
	}
	if !isIdentifier(name) {
		return false
	}
	digits := hasDigit(name)
	first, end := wordAt(s.in, s.pos)
	second, _ := wordAt(s.in, end)
	switch {
	case s.isKey(before):
		s.noun = nounOf(strings.ToLower(name)) // the key can be the noun of its value
		if s.noun.text == "" && strings.HasPrefix(strings.TrimLeft(s.in[s.pos+1:], " "), "[") {
			s.addName(nounField, name) // {"currency": ["is missing"]}
		}
		return true
	case s.noun.text == nounField && !s.noun.strong && (s.before == "given" || isConstant(name)):
		return false // the key of a dictionary
	case s.noun.text == nounType && (!isCodeShaped(name) || strings.ToUpper(name) == name):
		return false // a type in the data, not in the program
	case digits && s.noun.text == nounCode && s.isDataCode():
		return false
	case s.noun.text != "" && !s.noun.named && (!digits || s.noun.digits):
		s.addName(s.noun.text, name)
		s.noun.named = true
		return true
	case digits:
		return false
	case isPredicate(first, second), s.isSubscript(before), strings.Contains(name, ".") && strings.Contains(s.in[before:s.pos], `."`),
		before == 0 && strings.TrimSpace(s.in[s.pos:]) == "" && !isConstant(name) && len(name) > 2: // no code of a country
		s.addName(nounField, name)
		return true
	}
	return false
}

// path reads the rest of "SHOP"."ORDERS"."TOTAL", as databases write a column.
func (s *scanner) path(name string) string {
	parts := []string{name}
	for len(parts) < maxNames {
		rest, ok := strings.CutPrefix(s.in[s.pos:], `."`)
		end := strings.IndexByte(prefix(rest, maxName), '"')
		if !ok || end < 0 {
			break
		}
		parts = append(parts, rest[:end])
		s.pos += len(`."`) + end + 1
	}
	return strings.Join(parts, ".")
}

// isKey recognizes a key of JSON.
func (s *scanner) isKey(before int) bool {
	if s.in[before] != '"' && s.in[before] != '\'' || s.pos == len(s.in) || s.in[s.pos] != ':' {
		return false
	}
	object := strings.TrimRight(prefix(s.in[max(0, before-64):before], 64), " \n\t\r")
	return strings.HasSuffix(object, "{") || strings.HasSuffix(object, ",")
}

// isSubscript recognizes the "amount" of Order["amount"].
func (s *scanner) isSubscript(before int) bool {
	return before > 1 && s.in[before-1] == '[' && isLetter(s.in[before-2]) && s.pos < len(s.in) && s.in[s.pos] == ']'
}

var year = regexp.MustCompile(`[0-9]{4}`)

// addName keeps a name. A year in a name is data, as in the table orders_2026_03.
func (s *scanner) addName(kind, name string) {
	if kind != nounCode && kind != nounStatus && year.MatchString(name) {
		name = strings.TrimRight(withoutDigits(name), "#._-")
	}
	s.keepName(kind + " " + name)
}

func (s *scanner) keepName(name string) {
	if len(s.names) < maxNames && !slices.Contains(s.names, name) {
		s.names = append(s.names, name)
	}
}

// isIdentifier accepts letters, digits and the marks between the parts of a name.
func isIdentifier(text string) bool {
	return text != "" && len(text) <= maxIdentifier && !isDigit(text[0]) && strings.IndexByte(".-/", text[0]) < 0 &&
		strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_$.-/") == ""
}

// isCodeShaped reports whether a name is written as in a program: snake_case, camelCase, a.path, or CAPITALS.
func isCodeShaped(name string) bool {
	return isMixed(name) || strings.ContainsAny(name, "./") || len(name) >= 3 && strings.ToUpper(name) == name
}

// isConstant recognizes capitals such as PLUS, which are more often data than a name.
func isConstant(name string) bool { return strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" }

// isMixed recognizes snake_case and camelCase.
func isMixed(name string) bool { return mixed.MatchString(name) }

var mixed = regexp.MustCompile(`_|[a-z][A-Z]`)

// isDataCode tells the code of a carrier or a country from the code of an error, by the word before it.
func (s *scanner) isDataCode() bool {
	return s.before != "" && !stopWords[s.before] && !codeWords[s.before]
}

var codeWords = set("sql exit reason result response return vendor native failure fault reject rejection rejected decline declined exception")

// stopWords can stand between a noun and its name.
var stopWords = set(`is was are has have had must may can cannot could not no of in on for with to from the a an and or by at as failed
fails required missing error errors value values name names found type types does did violation validation violated violates
mismatch set empty null access called named be were invalid unknown that which including following unique de unicidad unicidade`)
