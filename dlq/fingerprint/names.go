package fingerprint

import (
	"slices"
	"strings"
)

const (
	maxNames       = 8
	maxWords       = 4
	nounField      = "field"
	nounCode       = "code"
	nounType       = "type"
	nounColumn     = "column"
	nounConstraint = "constraint"
)

// noun is a word that says that the next word or quoted text is a name in the program:
// field "currency", constraint [orders_pkey], parameter: sku.
type noun struct {
	text   string
	strong bool // an ordinary word can be the name
	digits bool // the name may have digits
	gap    int  // words since the noun
	named  bool // a name was read; others may follow in a list
}

// nounOf returns the zero value for other words.
func nounOf(word string) noun {
	if len(word) < 3 || len(word) > 12 {
		return noun{}
	}
	var buffer [12]byte
	for i := range len(word) {
		buffer[i] = word[i]
		if isUpper(word[i]) {
			buffer[i] |= 0x20
		}
	}
	switch string(buffer[:len(word)]) {
	case "field", "fields", "property", "properties", "parameter", "parameters", "param", "argument", "arguments", "attribute", "attributes", "propertypath":
		return noun{text: nounField, strong: true}
	case "column", "columns", "spalte", "colonne", "columna", "coluna":
		return noun{text: nounColumn, strong: true, digits: true}
	case nounConstraint, "contrainte", "restricción", "restrição", "vincolo":
		return noun{text: nounConstraint, strong: true, digits: true}
	case "index", "table", "relation":
		return noun{text: "table", digits: true}
	case "reading", "key", "path", "element", "variable", "header":
		return noun{text: nounField}
	case "method", "function":
		return noun{text: "method"}
	case "class", "type", "schema", "subject", "module", "bean", "event", "command":
		return noun{text: nounType}
	case "code", "errorcode", "error_code":
		return noun{text: nounCode}
	}
	return noun{}
}

// after says what a character means for a pending name.
func (n *noun) after(punctuation string) {
	switch punctuation {
	case ",":
		if n.named { // another name of the same kind follows
			n.named, n.gap = false, 0
			return
		}
	case "=":
		if !n.named && n.text != nounType {
			return
		}
	case ":", `"`, "'", "`":
		if !n.named {
			return
		}
	case "(", "[":
		if !n.named {
			n.strong = true
			return
		}
	}
	*n = noun{}
}

// named looks at a chunk that may be a name.
func (s *scanner) named(c string) {
	pending := s.noun
	if name, digits, ok := identifier(c); ok && (!digits || pending.digits) {
		switch {
		case pending.text == nounConstraint && !strings.ContainsAny(name, "_."):
		case pending.text != "" && !pending.named && (isCodeShaped(name) || pending.strong && pending.gap == 0 && !isStopWord(name)):
			s.addName(pending.text, name)
			s.noun.named = true
			return
		case strings.HasPrefix(name, "$."), s.isSubject(name):
			s.addName(nounField, name)
		case s.isCode(name):
			s.addName(nounCode, name)
		}
	}
	if pending.text == "" {
		return
	}
	if s.noun.gap++; pending.named || s.noun.gap > 3 || !isStopWord(c) {
		s.noun = noun{}
	}
}

// isCode recognizes the code in "NOT_FOUND: no such order" and "declined: CARD_EXPIRED".
func (s *scanner) isCode(name string) bool {
	if !s.start || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "" {
		return false
	}
	switch name {
	case "CANCELLED", "UNKNOWN", "UNAUTHENTICATED", "ABORTED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE": // of gRPC
	default:
		if strings.IndexByte(name, '_') <= 0 {
			return false
		}
	}
	return s.pos == len(s.in) || s.in[s.pos-1] == ':' || s.in[s.pos] == ')'
}

// isSubject recognizes the name in "currency is required" and in "currency Field required".
func (s *scanner) isSubject(name string) bool {
	first, second := s.ahead(s.pos)
	if !isPredicate(first, second) {
		return false
	}
	return s.start || isUpper(first[0]) || isCodeShaped(name) || len(s.out) > 0 && s.out[len(s.out)-1] == '.'
}

// isPredicate recognizes what is said about a field that breaks a rule.
func isPredicate(first, second string) bool {
	switch first {
	case "must":
		return true
	case "may", "cannot", "should":
		return second == "not" || second == "be"
	case "is":
		switch second {
		case "required", "missing", "null", "nil", "undefined", "blank", "empty", "mandatory", "a":
			return true
		}
	case "failed":
		return second == "on"
	case "Field", "field":
		return second == "required"
	case "Input":
		return second == "should"
	}
	return false
}

// word looks at a word of the sentence.
func (s *scanner) word(word string) {
	s.start = false
	s.previous = word
	if n := nounOf(word); n.text != "" {
		s.noun = n
	}
}

func isLowerWord(word string) bool {
	for i := range len(word) {
		if isUpper(word[i]) {
			return false
		}
	}
	return true
}

// isCodeShaped reports whether a name is written as in a program: snake_case, camelCase,
// a.path, or CAPITALS.
func isCodeShaped(name string) bool {
	capitals := len(name) >= 3
	for i := range len(name) {
		c := name[i]
		if c == '_' || c == '.' || c == '/' || i > 0 && isUpper(c) && isLower(name[i-1]) {
			return true
		}
		capitals = capitals && isUpper(c)
	}
	return capitals
}

// isStopWord reports whether a word can stand between a noun and its name.
func isStopWord(word string) bool {
	switch strings.ToLower(word) {
	case "is", "was", "are", "has", "have", "had", "must", "may", "can", "cannot", "could", "not", "no", "of", "in", "on", "for", "with",
		"to", "from", "the", "a", "an", "and", "or", "by", "at", "as", "failed", "fails", "required", "missing", "error", "errors", "value",
		"values", "name", "names", "found", "type", "types", "does", "did", "violation", "validation", "violated", "violates",
		"mismatch", "set", "empty", "null", "access", "called", "named", "be", "were", "invalid", "unknown", "that", "which",
		"unique", "de", "unicidad", "unicidade":
		return true
	}
	return false
}

func (s *scanner) addName(kind, name string) {
	if len(s.names) < maxNames {
		s.keepName(kind + " " + name)
	}
}

func (s *scanner) keepName(name string) {
	if len(s.names) < maxNames && !slices.Contains(s.names, name) {
		s.names = append(s.names, name)
	}
}

// equal compares a word with one in lower case.
func equal(word, lower string) bool {
	return len(word) == len(lower) && strings.EqualFold(word, lower)
}
