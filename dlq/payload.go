package dlq

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// What PostgreSQL's JSONB can hold: numeric has at most 131,072 digits before
// and 16,383 after the point, and the parser's stack bounds the depth. The
// limits here stay well inside, and the exact bytes are stored in any case.
const (
	maxPayloadDepth    = 512
	maxPayloadExponent = 1000
	maxPayloadNumber   = 1000
)

// PayloadOf returns the value as JSON that JSONB will take, or nil: not JSON,
// not UTF-8, \u0000 or half a surrogate pair in a string, a number or a nesting
// beyond JSONB's limits. Nothing is lost by nil: the bytes are kept.
func PayloadOf(value []byte) json.RawMessage {
	if len(value) == 0 || !utf8.Valid(value) || !json.Valid(value) {
		return nil
	}
	if !escapesFitJSONB(value) || !tokensFitJSONB(value) {
		return nil
	}
	return json.RawMessage(value)
}

// tokensFitJSONB checks depth and numbers of valid JSON.
func tokensFitJSONB(value []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	for depth := 0; ; {
		token, err := decoder.Token()
		if err == io.EOF {
			return true
		}
		if err != nil {
			return false
		}
		switch t := token.(type) {
		case json.Delim:
			if t == '{' || t == '[' {
				depth++
			} else {
				depth--
			}
			if depth > maxPayloadDepth {
				return false
			}
		case json.Number:
			if !numberFitsJSONB(t.String()) {
				return false
			}
		}
	}
}

func numberFitsJSONB(number string) bool {
	mantissa, exponent, found := strings.Cut(strings.ToLower(number), "e")
	if len(mantissa) > maxPayloadNumber {
		return false
	}
	if !found {
		return true
	}
	n, err := strconv.Atoi(exponent)
	return err == nil && -maxPayloadExponent <= n && n <= maxPayloadExponent
}

// escapesFitJSONB looks at the \u escapes of valid JSON. A backslash occurs in
// JSON only inside strings, so there is no need to parse.
func escapesFitJSONB(value []byte) bool {
	for i := 0; i < len(value); i++ {
		if value[i] != '\\' {
			continue
		}
		i++ // the escaped character; valid JSON has one
		if value[i] != 'u' {
			continue
		}
		unit, _ := strconv.ParseUint(string(value[i+1:i+5]), 16, 16)
		i += 4
		switch {
		case unit == 0, 0xDC00 <= unit && unit <= 0xDFFF:
			return false
		case 0xD800 <= unit && unit <= 0xDBFF:
			if i+6 >= len(value) || value[i+1] != '\\' || value[i+2] != 'u' {
				return false
			}
			low, _ := strconv.ParseUint(string(value[i+3:i+7]), 16, 16)
			if low < 0xDC00 || low > 0xDFFF {
				return false
			}
			i += 6
		}
	}
	return true
}
