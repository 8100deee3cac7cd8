package console

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

var shellSafe = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,-]+$`)

// quote writes one word for a shell. Strangers choose names and keys, so characters that a terminal might act on during a paste
// become escapes, which bash, zsh and ksh read.
func quote(word string) string {
	if shellSafe.MatchString(word) {
		return word
	}
	if !strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	var out strings.Builder
	out.WriteString("$'")
	for i := range len(word) {
		switch c := word[i]; {
		case c == '\'' || c == '\\':
			out.WriteString(`\` + string(c))
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&out, `\%03o`, c)
		default:
			out.WriteByte(c)
		}
	}
	return out.String() + "'"
}

// shell writes a command whose words are quoted.
func shell(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = quote(word)
	}
	return strings.Join(quoted, " ")
}
