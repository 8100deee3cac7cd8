package dlq

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The limits of PostgreSQL's JSONB are higher: 131,072 digits before the point and 16,383
// after it, and a depth that the parser's stack allows. A value beyond these constants is
// stored as bytes only.
const (
	maxPayloadDepth    = 512
	maxPayloadExponent = 1000
	maxPayloadNumber   = 1000
)

// PayloadOf returns the value as JSON that JSONB accepts, or nil. It is nil for a value
// that is not JSON or not UTF-8, that has \u0000 or half a surrogate pair in a string, or
// whose numbers or nesting exceed the limits. The record keeps the bytes of every value.
func PayloadOf(value []byte) json.RawMessage {
	if len(value) == 0 || !utf8.Valid(value) || !json.Valid(value) {
		return nil
	}
	if !escapesFitJSONB(value) || !tokensFitJSONB(value) {
		return nil
	}
	return json.RawMessage(value)
}

// tokensFitJSONB checks the depth and the numbers of valid JSON.
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

// escapesFitJSONB checks the \u escapes of valid JSON. Outside strings valid JSON has no
// backslashes, so the value need not be parsed.
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
