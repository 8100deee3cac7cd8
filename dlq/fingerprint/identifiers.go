package fingerprint

import "strings"

// identifier returns a name without the numbers in brackets: "lines[].price". It tells whether
// other digits are in it.
func identifier(text string) (name string, digits, ok bool) {
	if text == "" || len(text) > 128 || !isLetter(text[0]) && text[0] != '_' && text[0] != '$' {
		return "", false, false
	}
	bracket := false
	indexed := false
	for i := range len(text) {
		switch c := text[i]; {
		case isLower(c), isUpper(c), c == '_', c == '$', c == '.', c == '-', c == '/':
		case isDigit(c):
			digits = digits || !bracket
			indexed = indexed || bracket
		case c == '[':
			bracket = true
		case c == ']':
			bracket = false
		default:
			return "", false, false
		}
	}
	if indexed {
		text = withoutIndexes(text)
	}
	return text, digits, true
}

func withoutIndexes(text string) string {
	b := make([]byte, 0, len(text))
	bracket := false
	for i := range len(text) {
		bracket = text[i] == '[' || bracket && text[i] != ']'
		if !bracket || !isDigit(text[i]) {
			b = append(b, text[i])
		}
	}
	return string(b)
}

// lastPart returns "name" of "<local>.name" and "order.name", since only some builds name their
// variables, and "find" of "shop.Orders.find(java.lang.String)".
func lastPart(expression string) string {
	if i := strings.IndexByte(expression, '('); i > 0 {
		expression = expression[:i]
	}
	_, name := splitLast(expression, '.')
	return name
}

// nullExpression accepts the expression in a message of JEP 358, such as
// "shop.Order.getCustomer()" and "<local4>.name". The number of a local variable is not kept.
func nullExpression(text string) (string, bool) {
	if text == "" || len(text) > 256 {
		return "", false
	}
	for i := range len(text) {
		if c := text[i]; !isAlnum(c) && strings.IndexByte("_$.()[]<>, ", c) < 0 || c >= 0x80 {
			return "", false
		}
	}
	if rest, ok := strings.CutPrefix(text, "<local"); ok {
		text = "<local" + rest[leadingDigits(rest):]
	}
	return text, true
}

// path reads the rest of "SHOP"."ORDERS"."TOTAL", as databases write a column.
func (s *scanner) path(start, end int) bool {
	var parts []string
	for {
		name, _, ok := identifier(s.in[start:end])
		if !ok || len(parts) == maxNames {
			return false
		}
		parts = append(parts, name)
		if !strings.HasPrefix(s.in[end:], `"."`) {
			break
		}
		length := strings.IndexByte(prefix(s.in[end+3:], maxName), '"')
		if length < 0 {
			return false
		}
		start, end = end+3, end+3+length
	}
	if len(parts) < 2 {
		return false
	}
	s.addName(nounColumn, strings.Join(parts, "."))
	s.pos = end + 1
	s.literal(`"` + strings.Join(parts, `"."`) + `"`)
	s.noun, s.start = noun{}, false
	return true
}
