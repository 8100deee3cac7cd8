package console

import (
	"encoding/hex"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"dlqmanager/client"
)

// maxDiff bounds the shown part of a diff, in bytes.
const maxDiff = 64 << 10

// diffLine is a line that was added (+), removed (-) or left unchanged (space), or a gap (@).
type diffLine struct{ Sign, Text string }

// diffOf compares two texts by lines.
func diffOf(name, before, after string) partDiff {
	d := partDiff{Name: name}
	unified := string(diff.Diff("before", []byte(before+"\n"), "after", []byte(after+"\n")))
	if len(unified) > maxDiff {
		unified, d.IsCut = cutText(unified, maxDiff), true
	}
	lines := strings.Split(strings.TrimSuffix(unified, "\n"), "\n")
	for i, line := range lines[min(3, len(lines)):] { // after the command and the names of the files
		if line == "" || line[0] == '\\' || line[0] == '@' && i == 0 {
			continue
		}
		sign, text := line[:1], line[1:]
		if sign == "@" {
			text = "…"
		}
		d.Lines = append(d.Lines, diffLine{sign, visible(text)})
	}
	return d
}

// readable writes bytes for a comparison: JSON with indents, text, or a dump.
func readable(content *[]byte) string {
	switch {
	case content == nil:
		return "null"
	case isJSON(*content):
		return indentJSON(*content)
	case isPlain(*content):
		return withMarks(content)
	default:
		return hex.Dump(*content)
	}
}

// withMarks writes bytes as a text, with a mark for each CR.
func withMarks(content *[]byte) string {
	if content == nil {
		return "null"
	}
	return strings.ReplaceAll(string(*content), "\r", `\r`)
}

func readableHeaders(headers client.Headers) string {
	lines := make([]string, 0, len(headers))
	for _, header := range headers {
		h := viewHeader(header.Key, header.Value)
		text := h.Text
		if h.Kind != "text" {
			text = strings.TrimSpace("(" + h.Kind + ") " + text)
		}
		lines = append(lines, h.Key+": "+strings.ReplaceAll(text, "\n", `\n`))
	}
	return strings.Join(lines, "\n")
}
