package fingerprint

import (
	"bytes"
	"strings"
)

// essence returns the essence of the first line. Further lines hold details, unless the first
// has no words.
func (r *reading) essence(message string) string {
	if line := firstLine(message); len(line) < len(message) && hasWords(withoutNotes(prefix(line, maxRead)), 1) {
		return essence(Template(line))
	}
	return essence(r.template)
}

// essence shortens a template to what all failures of one cause share: without notes in
// brackets, without the context that a caller put before it, and with one text for each way
// in which another service cannot be reached.
func essence(template string) string {
	text := withoutContext(withoutNotes(template))
	if i, state := goOutage(text); i >= 0 {
		text = text[:i] + state
	}
	return strings.Trim(strings.ReplaceAll(text, `"`, ""), " .!:;,")
}

// withoutNotes removes what stands in brackets behind a space or at the start:
// "[event <uuid>] closed (attempt <number>)" becomes "closed". Such notes come and go. A
// bracket that does not close is kept, with all that follows.
func withoutNotes(text string) string {
	out := make([]byte, 0, len(text))
	depth, start := 0, 0
	for i := range len(text) {
		switch c := text[i]; c {
		case '(', '[', '{':
			if depth == 0 && i > 0 && text[i-1] != ' ' && !isObject(text[i+1:]) {
				break
			}
			if depth == 0 {
				out, start = append(out, text[start:i]...), i
			}
			depth++
		case ')', ']', '}':
			if depth == 0 {
				break
			}
			if depth--; depth > 0 {
				break
			}
			if start = i + 1; start < len(text) && isClosing(text[start]) {
				out = bytes.TrimRight(out, " ")
			}
		}
	}
	return oneLine(string(append(out, text[start:]...)))
}

// isObject recognizes the fields in "Order[id=<number>, state=NEW]".
func isObject(text string) bool {
	i := 0
	for i < len(text) && i < 32 && (isAlnum(text[i]) || text[i] == '_') {
		i++
	}
	return i > 0 && i < len(text) && text[i] == '='
}

func isClosing(c byte) bool { return strings.IndexByte(":,;.!?", c) >= 0 }

// withoutContext removes the parts before a colon that say where it failed and not why:
// classes, "panic", and the message at hand, as in "handle order <number>: load tariff: …".
func withoutContext(text string) string {
	for {
		context, rest, ok := strings.Cut(text, ": ")
		if !ok || !isContext(context) || !hasWords(rest, 1) || hasVariable(context) && !hasWords(rest, 3) {
			return text
		}
		text = rest
	}
}

func isContext(text string) bool {
	switch strings.ToLower(text) {
	case "panic", "recovered", "runtime error", "fatal error", "error", "fatal", "exception", "uncaught":
		return true
	}
	return hasVariable(text) && strings.Count(text, " ") < 4 || isClassName(text)
}

// hasVariable reports whether a message is named by its number or id.
func hasVariable(text string) bool {
	return strings.Contains(strings.ReplaceAll(text, varQuoted, ""), "<")
}

// isClassName recognizes "org.shop.LateException", "*json.SyntaxError" and "TypeError".
func isClassName(text string) bool {
	for i := range len(text) {
		if !isClassByte(text[i]) {
			return false
		}
	}
	name := simpleName(text)
	return name != "" && isUpper(name[0]) && (strings.Count(text, ".") > 1 || strings.Contains(text, "::") ||
		strings.HasSuffix(name, "Error") || strings.HasSuffix(name, "Exception"))
}

// simpleName returns "LateException" of "org.shop.LateException".
func simpleName(class string) string {
	return class[strings.LastIndexAny(class, ".:$/")+1:]
}

// hasWords reports whether a text has n words that are no placeholders.
func hasWords(text string, n int) bool {
	for word := range strings.FieldsSeq(text) {
		if len(word) > 1 && isLetter(word[0]) {
			if n--; n == 0 {
				return true
			}
		}
	}
	return false
}

// firstWords returns the first four fixed words. Words in capitals are left out behind the
// first one, because most are data. So is what follows "for".
func firstWords(text string) string {
	var words []string
	for word := range strings.FieldsSeq(text) {
		word = strings.Trim(word, ".,:;!?\"")
		if word == "for" && len(words) > 0 {
			break // what follows is data
		}
		if len(word) > 1 && isWord(word) && (isLowerWord(word) || len(words) == 0 && isLowerWord(word[1:])) {
			if words = append(words, strings.ToLower(word)); len(words) == maxWords {
				break
			}
		}
	}
	return strings.Join(words, " ")
}
