package ctl

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// printable makes text of strangers safe for a terminal. It escapes control characters, invisible characters, and characters
// that change the direction of text.
func printable(text string) string { return escape(text, "\n\t", false) }

// oneLine is printable, and also escapes tabs and line breaks.
func oneLine(text string) string { return escape(text, "", false) }

// safeJSON escapes the characters in JSON that a terminal may obey. The JSON values do not change, and the white space between
// them stays.
func safeJSON(content []byte) []byte { return []byte(escape(string(content), "\n\t\r", true)) }

func escape(text, kept string, isJSON bool) string {
	if !strings.ContainsFunc(text, dangerous) {
		return text
	}
	var safe strings.Builder
	for i, r := range text {
		switch {
		case !dangerous(r) || strings.ContainsRune(kept, r):
			safe.WriteRune(r)
		case isJSON:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&safe, "\\u%04x", unit)
			}
		case r == '\n':
			safe.WriteString("\\n")
		case r == '\t':
			safe.WriteString("\\t")
		case r == unicode.ReplacementChar && text[i] != 0xEF: // an invalid byte of UTF-8
			fmt.Fprintf(&safe, "\\x%02x", text[i])
		case r > 0xFFFF:
			fmt.Fprintf(&safe, "\\U%08x", r)
		default:
			fmt.Fprintf(&safe, "\\u%04x", r)
		}
	}
	return safe.String()
}

// dangerous tells whether a terminal may obey a character instead of showing it. The category Cc has the control characters C0
// and C1. Cf has the marks of direction and the invisible characters. U+FFFD stands for bytes that are not UTF-8.
func dangerous(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) || r == unicode.ReplacementChar
}
