package ctl

import (
	"fmt"
	"strings"
	"unicode"
)

// printable makes text of strangers harmless for a terminal: control characters, and characters that change the
// direction of the text or are invisible, are written as escapes.
func printable(text string) string { return escape(text, "\n\t") }

// oneLine is printable text in one line.
func oneLine(text string) string { return escape(text, "") }

func escape(text, kept string) string {
	if !strings.ContainsFunc(text, dangerous) {
		return text
	}
	var safe strings.Builder
	for i, r := range text {
		switch {
		case strings.ContainsRune(kept, r):
			safe.WriteRune(r)
		case r == '\n':
			safe.WriteString("\\n")
		case r == '\t':
			safe.WriteString("\\t")
		case r == unicode.ReplacementChar && text[i] != 0xEF: // a byte that is not UTF-8
			fmt.Fprintf(&safe, "\\x%02x", text[i])
		case dangerous(r) && r > 0xFFFF:
			fmt.Fprintf(&safe, "\\U%08x", r)
		case dangerous(r):
			fmt.Fprintf(&safe, "\\u%04x", r)
		default:
			safe.WriteRune(r)
		}
	}
	return safe.String()
}

// dangerous tells whether a terminal may obey a character instead of showing it. Cc has the controls of C0 and C1, Cf
// the marks of direction and the invisible characters. U+FFFD stands for bytes that are not UTF-8.
func dangerous(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) || r == unicode.ReplacementChar
}

// safeJSON escapes the characters of JSON that a terminal may obey. The JSON means the same. Space between its values is kept.
func safeJSON(content []byte) []byte {
	if !strings.ContainsFunc(string(content), func(r rune) bool { return dangerous(r) && r != '\n' && r != '\t' && r != '\r' }) {
		return content
	}
	var safe strings.Builder
	for _, r := range string(content) {
		switch {
		case r == '\n' || r == '\t' || r == '\r' || !dangerous(r):
			safe.WriteRune(r)
		case r > 0xFFFF:
			high, low := (r-0x10000)>>10+0xD800, (r-0x10000)&0x3FF+0xDC00
			fmt.Fprintf(&safe, "\\u%04x\\u%04x", high, low)
		default:
			fmt.Fprintf(&safe, "\\u%04x", r)
		}
	}
	return []byte(safe.String())
}
