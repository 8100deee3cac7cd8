package masking

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// AddOpaque adds a document whose structure is not known: the texts in the document, and its beginning as a whole.
func (q *Quotes) AddOpaque(document []byte) { q.addOpaque(document, maxNested) }

// maxNested is how many levels of documents are read, such as JSON in a string of JSON, or in base64.
const maxNested = 3

func (q *Quotes) addOpaque(document []byte, levels int) {
	if text, ok := fromUTF16(document); ok && levels > 1 {
		q.addOpaque(text, levels-1)
	}
	var inner string
	if levels > 1 && json.Unmarshal(document, &inner) == nil {
		q.addOpaque([]byte(inner), levels-1)
	}
	if !q.isBinary && isBinary(document) {
		q.isBinary = true
		defer func() { q.isBinary = false }()
	}
	whole := document[:min(len(document), maxWhole)]
	q.add(string(whole))
	unquoted := 0 // quotation marks before this index begin no text
	for i := 0; i < len(document) && !q.isFull; {
		switch c := document[i]; {
		case c == '"' && i >= unquoted:
			text, end, isName := quotedText(document, i)
			switch {
			case end < 0: // a text without an end nearby is read word by word
				unquoted = i + maxQuoted
				end = i + 1
			case !isName:
				q.Add(text)
				q.addWords(text)
				q.addNested(text, levels)
			case !isIdentifier(text):
				q.Add(text)
			}
			i = end
		default:
			word := document[i:endOfWord(document, i)]
			if len(word) == 0 {
				_, size := utf8.DecodeRune(document[i:])
				i += size
				continue
			}
			q.Add(string(word))
			q.addNested(string(word), levels)
			i += len(word)
		}
	}
}

// endOfWord returns the end of the word that begins at i, or i if no word begins there.
func endOfWord(document []byte, i int) int {
	for i < len(document) && !isDelimiter(document[i]) && document[i] != '"' {
		c, size := utf8.DecodeRune(document[i:])
		if size == 1 && c == utf8.RuneError || isWideDelimiter(c) { // invalid UTF-8 is part of a number or a length
			break
		}
		i += size
	}
	return i
}

// addWords adds the words of a text.
func (q *Quotes) addWords(text string) {
	for word := range strings.FieldsFuncSeq(text, func(c rune) bool { return c == '"' || c < utf8.RuneSelf && isDelimiter(byte(c)) || isWideDelimiter(c) }) {
		if word != text {
			q.Add(word)
		}
	}
}

// addNested adds the content of a text that is a document itself.
func (q *Quotes) addNested(text string, levels int) {
	if levels <= 1 || q.isFull {
		return
	}
	if trimmed := strings.TrimSpace(text); trimmed != "" && strings.IndexByte(`{["<`, trimmed[0]) >= 0 {
		q.addOpaque([]byte(text), levels-1)
	} else if decoded, ok := fromBase64(text); ok {
		q.addOpaque(decoded, levels-1)
	}
}

// maxQuoted is how far from its beginning the end of a quoted text is searched, in bytes.
const maxQuoted = 4 << 10

// quotedText reads a text in quotation marks. end is negative if the text has no end nearby. A colon follows a name, as in JSON.
func quotedText(document []byte, begin int) (text string, end int, isName bool) {
	limit := min(len(document), begin+maxQuoted)
	for end = begin + 1; end < limit && document[end] != '"'; end++ {
		if document[end] == '\\' {
			end++
		}
	}
	if end >= limit {
		return "", -1, false
	}
	raw := document[begin : end+1]
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw[1 : len(raw)-1])
	}
	for end++; end < len(document) && strings.IndexByte(" \t\r\n", document[end]) >= 0; end++ {
	}
	return text, end, end < len(document) && document[end] == ':'
}

func isDelimiter(c byte) bool {
	return c <= ' ' || c == 0x7f || strings.IndexByte(`'<>{}[](),;:=|&?`, c) >= 0
}

// isWideDelimiter is isDelimiter for characters beyond ASCII, such as the full-width colon.
func isWideDelimiter(c rune) bool {
	return c >= utf8.RuneSelf && c != utf8.RuneError && (unicode.IsSpace(c) || unicode.IsPunct(c))
}

// isBinary tells whether a document has bytes that no text has. In such a document, the bytes beside a text may look like letters.
func isBinary(document []byte) bool {
	return !utf8.Valid(document) || strings.ContainsFunc(string(document), func(c rune) bool {
		return c < ' ' && c != '\t' && c != '\n' && c != '\r'
	})
}

// isIdentifier tells whether a name is an identifier of a program. Such names tell nothing about people, and are in many texts.
func isIdentifier(name string) bool {
	return name == "" || (name[0] < '0' || '9' < name[0]) && strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789_-.:$") == ""
}

// fromUTF16 reads a document in UTF-16: with a byte order mark, or with a zero byte in the same half of many characters.
func fromUTF16(document []byte) (text []byte, ok bool) {
	if len(document) < 4 || len(document)%2 != 0 {
		return nil, false
	}
	zeros := [2]int{}
	for i, c := range document {
		if c == 0 {
			zeros[i%2]++
		}
	}
	isMarked := document[0] == 0xff && document[1] == 0xfe || document[0] == 0xfe && document[1] == 0xff
	most := max(zeros[0], zeros[1])
	if !isMarked && (min(zeros[0], zeros[1]) > 0 || most < len(document)/8) {
		return nil, false
	}
	high := 1
	if document[0] == 0xfe && isMarked || !isMarked && zeros[0] > 0 {
		high = 0
	}
	units := make([]uint16, 0, len(document)/2)
	for i := 0; i < len(document); i += 2 {
		units = append(units, uint16(document[i+high])<<8|uint16(document[i+1-high]))
	}
	return []byte(strings.TrimPrefix(string(utf16.Decode(units)), "\ufeff")), true
}

// minEncoded is the length of the shortest text that is read as base64. Shorter texts are words.
const minEncoded = 16

// fromBase64 reads a text that is base64 of another text.
func fromBase64(text string) (decoded []byte, ok bool) {
	text = strings.TrimRight(strings.TrimSpace(text), "=")
	if len(text) < minEncoded {
		return nil, false
	}
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(text, "-_") {
		encoding = base64.RawURLEncoding
	}
	decoded, err := encoding.DecodeString(text)
	return decoded, err == nil && !isBinary(decoded)
}
