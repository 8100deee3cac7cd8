package console

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"dlqmanager/client"
)

const (
	// maxShownText is how many bytes of a value are on the page. The download has the whole value.
	maxShownText = 64 << 10
	// maxShownHex is lower, since a dump is about five times as long as its bytes.
	maxShownHex = 16 << 10
	maxShownKey = 1 << 10
)

// Views of a value, in the parameter view.
const (
	viewJSON = "json"
	viewText = "text"
	viewHex  = "hex"
)

// bytesView shows a value or a key.
type bytesView struct {
	// Part names the value or the key in the address of the download.
	Part   string
	IsNull bool
	Size   int64
	// View is the view that is shown, Views are the possible views.
	View   string
	Views  []string
	Tokens []token
	Text   string
	// Shown is how many bytes are shown; 0 if all bytes are shown.
	Shown int64
	// IsDecoded is set if the JSON was made with a schema.
	IsDecoded bool
	// IsBroken is set if the text view shows bytes that are no UTF-8.
	IsBroken bool
}

// viewBytes shows bytes in the wanted view, or in the first possible view. decoded is the JSON that was decoded from the bytes
// with a schema; empty without a schema.
func viewBytes(part string, from *client.Bytes, decoded json.RawMessage, wanted string, limit int) bytesView {
	b := bytesView{Part: part, IsNull: from == nil}
	if b.IsNull {
		return b
	}
	content := from.Base64
	b.Size = from.Size
	source := content
	isJSON := isJSON(content)
	if !isJSON && len(decoded) > 0 && string(decoded) != "null" {
		source, isJSON, b.IsDecoded = decoded, true, true
	}
	if isJSON {
		b.Views = append(b.Views, viewJSON)
	}
	if isPlain(content) {
		b.Views = append(b.Views, viewText, viewHex)
	} else {
		b.Views = append(b.Views, viewHex, viewText)
	}
	b.View = b.Views[0]
	if slices.Contains(b.Views, wanted) {
		b.View = wanted
	}
	switch b.View {
	case viewJSON:
		var isCut bool
		if b.Tokens, isCut = formatJSON(source, limit); isCut {
			b.Shown = int64(limit)
		}
		for i := range b.Tokens {
			b.Tokens[i].Text = visible(b.Tokens[i].Text)
		}
	case viewText:
		shown := cutText(content, limit)
		b.Text, b.IsBroken = visible(string(shown)), !utf8.Valid(shown)
		b.cut(len(shown))
	default:
		shown := content[:min(len(content), limit, maxShownHex)]
		b.Text = hex.Dump(shown)
		b.cut(len(shown))
	}
	return b
}

func (b *bytesView) cut(shown int) {
	if int64(shown) < b.Size {
		b.Shown = int64(shown)
	}
}

// isPlain tells whether bytes are a text that a form sends back unchanged, except for its line ends.
func isPlain(content []byte) bool {
	isControl := func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0x7f }
	return utf8.Valid(content) && !bytes.ContainsFunc(content, isControl)
}

// isTurning tells whether a character is invisible and may change how the text around it looks.
func isTurning(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f || r == 0x061c ||
		r >= 0x200b && r <= 0x200d || r == 0xfeff || r == 0x2028 || r == 0x2029
}

// unixLines makes each line end an LF. Browsers send each line end of a form as CR LF, and visit.typed reads the form with
// unixLines.
func unixLines(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}
