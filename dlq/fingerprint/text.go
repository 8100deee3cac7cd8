package fingerprint

import (
	"iter"
	"strings"
	"unicode/utf8"
)

// storable returns at most limit bytes of s, as valid UTF-8 without NUL, and without white space at its ends.
func storable(s string, limit int) string {
	s = strings.TrimSpace(prefix(s, limit))
	if !utf8.ValidString(s) {
		s = prefix(strings.ToValidUTF8(s, "\uFFFD"), limit)
	}
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.TrimSpace(strings.ReplaceAll(s, "\x00", " "))
	}
	return s
}

// prefix returns at most limit bytes of s, and cuts no character.
func prefix(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for i := limit; i > max(-1, limit-utf8.UTFMax); i-- {
		if utf8.RuneStart(s[i]) {
			return s[:i]
		}
	}
	return s[:limit]
}

// unixLines returns text with "\n" at the ends of its lines.
func unixLines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// lines yields the lines of a text, and where they begin.
func lines(text string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for at := 0; at < len(text); {
			line, _, _ := strings.Cut(text[at:], "\n")
			if !yield(at, line) {
				return
			}
			at += len(line) + 1
		}
	}
}

// trimIndent returns the line without its indentation, and the size of the indentation.
func trimIndent(line string) (body string, indent int) {
	body = strings.TrimLeft(line, " \t")
	return body, len(line) - len(body)
}

// splitHead splits "shop.NotFoundException: order 17" into class and message. Some lines have no class.
func splitHead(line string) (class, message string) {
	i := 0
	for i < len(line) && isClassByte(line[i]) {
		i++
	}
	// A colon can be part of a class (Ruby), but not its end.
	for i > 0 && line[i-1] == ':' {
		i--
	}
	class, rest := line[:i], line[i:]
	if class == "" || isDigit(class[0]) || class[0] == '.' || class[0] == '/' {
		return "", line
	}
	if end := strings.IndexByte(rest, ')'); end > 0 && strings.HasPrefix(rest, " (0x") {
		rest = rest[end+1:] // .NET: "SqlException (0x80131904): …"
	} else if end := strings.IndexByte(rest, ']'); end > 0 && strings.HasPrefix(rest, " [") {
		if j := end + 1; j == len(rest) || rest[j] == ':' {
			rest = rest[j:] // Node: "TypeError [ERR_INVALID_ARG_TYPE]: …"
		}
	}
	switch {
	case rest == "":
		return class, ""
	case strings.HasPrefix(rest, ": "), rest == ":", strings.HasPrefix(rest, ":\n"), strings.HasPrefix(rest, ":\r"):
		return class, strings.TrimPrefix(rest[1:], " ")
	case rest[0] == '\n', rest[0] == '\r':
		return class, rest
	}
	return "", line
}

func isClassByte(c byte) bool {
	return isAlnum(c) || c == '.' || c == '_' || c == '$' || c == ':' || c == '/' || c == '*' || c == '@' || c == '`' || c == '+'
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLower(c byte) bool  { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool  { return 'A' <= c && c <= 'Z' }
func isLetter(c byte) bool { return isLower(c) || isUpper(c) || c >= 0x80 }
func isAlnum(c byte) bool  { return isLetter(c) || isDigit(c) }

// simpleName returns "LateException" of "org.shop.LateException".
func simpleName(class string) string {
	return class[strings.LastIndexAny(class, ".:$/")+1:]
}

func hasDigit(s string) bool { return strings.ContainsAny(s, "0123456789") }
