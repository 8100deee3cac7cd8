package dlq

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// PostgreSQL's JSONB has higher limits. A value beyond these constants, or with a number
// beyond the range of a float64, is stored as bytes only. Many readers of JSON fail at such a number, and could not read a
// page of a list with this message.
const (
	maxPayloadDepth  = 512
	maxPayloadNumber = 1000
	// PostgreSQL returns numbers without exponents, so an exponent becomes as many digits. maxPayloadExponents limits the
	// sum of all exponents: a megabyte of 1e308 would be shown as fifty megabytes.
	maxPayloadExponents = 100_000
)

// PayloadOf returns the value as JSON that JSONB accepts. The result is nil for a value
// that is not JSON or not UTF-8, that has \u0000 or half a surrogate pair in a string, or
// whose numbers or nesting exceed the limits. The record keeps the bytes of every value.
func PayloadOf(value []byte) json.RawMessage {
	if len(value) == 0 || !utf8.Valid(value) || !json.Valid(value) {
		return nil
	}
	if !escapesFitJSONB(value) || !tokensFit(value) {
		return nil
	}
	return json.RawMessage(value)
}

// tokensFit checks the depth and the numbers of valid JSON by a scan of the text, since a
// decoder takes longer than all else that is done for a message.
func tokensFit(value []byte) bool {
	for i, depth, exponents := 0, 0, 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '"':
			i = endOfString(value, i)
		case c == '{' || c == '[':
			if depth++; depth > maxPayloadDepth {
				return false
			}
		case c == '}' || c == ']':
			depth--
		case c == '-' || '0' <= c && c <= '9':
			end := i + 1
			for end < len(value) && strings.IndexByte("+-.eE0123456789", value[end]) >= 0 {
				end++
			}
			exponent, ok := exponentOf(string(value[i:end]))
			exponents += exponent
			if !ok || exponents > maxPayloadExponents {
				return false
			}
			i = end - 1
		}
	}
	return true
}

// endOfString returns the index of the quote that ends the string which begins at i.
func endOfString(value []byte, i int) int {
	for i++; value[i] != '"'; i++ {
		if value[i] == '\\' {
			i++
		}
	}
	return i
}

// exponentOf returns the exponent of a number without its sign. ok is false for a number
// that is too long or too large.
func exponentOf(number string) (exponent int, ok bool) {
	if len(number) <= 15 && !strings.ContainsAny(number, "eE") {
		return 0, true // most numbers
	}
	mantissa, digits, found := strings.Cut(strings.ToLower(number), "e")
	if _, err := strconv.ParseFloat(number, 64); err != nil || len(mantissa) > maxPayloadNumber {
		return 0, false
	}
	if !found {
		return 0, true
	}
	exponent, err := strconv.Atoi(digits)
	if exponent < 0 {
		exponent = -exponent
	}
	return exponent, err == nil && exponent <= maxPayloadNumber
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
