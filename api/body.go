package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

// body reads the JSON object of a request field by field. It is stricter than
// encoding/json: what is misspelt, of the wrong type, null or given twice is
// refused, since a filter that is ignored retries more than was meant.
type body struct {
	*faults
	// prefix is the path of a nested object, such as "ramp.".
	prefix string
	fields map[string]json.RawMessage
}

// maxIntegerDigits is how many digits every int64 has at most.
const maxIntegerDigits = 19

// jsonSpace is what JSON takes for white space.
const jsonSpace = " \t\r\n"

// readBody reads the object of a request, or one without fields when the
// request has no body.
func readBody(c *fiber.Ctx, known ...string) *body {
	b := &body{faults: &faults{}}
	raw := bytes.Trim(c.Request().Body(), jsonSpace) // as sent: Fiber's own Body would inflate it without bounds
	if len(raw) == 0 {
		return b
	}
	mediaType, _, err := mime.ParseMediaType(c.Get(fiber.HeaderContentType))
	switch {
	case err != nil || mediaType != fiber.MIMEApplicationJSON && !strings.HasSuffix(mediaType, "+json"):
		b.reject(fiber.HeaderContentType, "must be %s", fiber.MIMEApplicationJSON)
	case c.Get(fiber.HeaderContentEncoding, "identity") != "identity":
		b.reject(fiber.HeaderContentEncoding, "must not be given: send the JSON as it is")
	case !utf8.Valid(raw):
		b.reject("body", "must be UTF-8")
	default:
		b.object("body", raw, known)
	}
	return b
}

func (b *body) err() error { return b.refusal("invalid request body") }

func (b *body) reject(field, format string, args ...any) {
	b.faults.reject(b.prefix+field, format, args...)
}

// require reports a field that is not given, unless there was nothing to read.
func (b *body) require(name string) {
	if _, given := b.fields[name]; !given && (b.fields != nil || len(b.details) == 0) {
		b.reject(name, "is required")
	}
}

// object takes the fields of a JSON object apart. what is its name in errors.
func (b *body) object(what string, raw []byte, known []string) {
	var whole json.RawMessage
	if err := json.Unmarshal(raw, &whole); err != nil {
		b.faults.reject(what, "is not valid JSON: %v", err)
		return
	}
	decoder := json.NewDecoder(bytes.NewReader(whole))
	if opening, _ := decoder.Token(); opening != json.Delim('{') { // valid JSON has no errors
		b.faults.reject(what, "must be a JSON object")
		return
	}
	b.fields = map[string]json.RawMessage{}
	for decoder.More() {
		token, _ := decoder.Token()
		name, _ := token.(string)
		var value json.RawMessage
		_ = decoder.Decode(&value)
		_, twice := b.fields[name]
		switch {
		case !slices.Contains(known, name) && len(known) == 0:
			b.reject(excerpt(name), "unknown field; there are none here")
		case !slices.Contains(known, name):
			b.reject(excerpt(name), "unknown field; known are %s", strings.Join(known, ", "))
		case twice:
			b.reject(name, "is given more than once")
		}
		b.fields[name] = value
	}
}

// nested reads a field that is an object itself; nil when it is not given.
func (b *body) nested(name string, known ...string) *body {
	raw, given := b.fields[name]
	if !given {
		return nil
	}
	inner := &body{faults: b.faults, prefix: b.prefix + name + "."}
	inner.object(b.prefix+name, raw, known)
	return inner
}

// text reads a string of at most limit characters.
func (b *body) text(name string, limit int) (value string, given bool) {
	raw, given := b.fields[name]
	if !given {
		return "", false
	}
	value, ok := textOf(raw)
	switch {
	case !ok:
		b.reject(name, "must be a string, UTF-8 without NUL; leave it out where there is none")
	case utf8.RuneCountInString(value) > limit:
		b.reject(name, "must be at most %d characters", limit)
	default:
		return value, true
	}
	return "", false
}

// textOf decodes a JSON string that PostgreSQL can take as TEXT. Half a
// surrogate pair is none: decoding would put another character in its place.
func textOf(raw json.RawMessage) (string, bool) {
	var value string
	if raw[0] != '"' || dlq.PayloadOf(raw) == nil || json.Unmarshal(raw, &value) != nil {
		return "", false
	}
	return value, isText(value)
}

// integer reads a number from 0 to most, which is 0 when it is not given.
func (b *body) integer(name string, most int) int {
	raw, given := b.fields[name]
	if !given {
		return 0
	}
	value, ok := integerOf(raw)
	if !ok || value < 0 || value > most {
		b.reject(name, "must be an integer from 0 to %d", most)
		return 0
	}
	return value
}

// integerOf decodes a JSON number without a fractional part, however it is
// written: JSON Schema takes 3348.0 and 1e3 for integers, and some programs write
// every number so. It works on the digits: a float64 would take
// 1.00000000000000000001 for 1, and big.Rat would compute 1e999999999 in full.
func integerOf(raw json.RawMessage) (int, bool) {
	mantissa, exponent, hasExponent := strings.Cut(strings.ToLower(string(raw)), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimRight(whole+fraction, "0")
	if digits == "" || digits == "-" {
		return 0, true // zero is zero at any exponent
	}
	zeros := len(whole) - len(digits) // to add behind the digits
	if hasExponent {
		shift, err := strconv.Atoi(exponent)
		if err != nil {
			return 0, false
		}
		zeros += shift
	}
	if zeros < 0 || zeros > maxIntegerDigits {
		return 0, false
	}
	value, err := strconv.Atoi(digits + strings.Repeat("0", zeros))
	return value, err == nil
}

func (b *body) flag(name string) bool {
	raw, given := b.fields[name]
	if given && string(raw) != "true" && string(raw) != "false" {
		b.reject(name, "must be true or false")
	}
	return string(raw) == "true"
}

// list reads an array of 1 to most items.
func (b *body) list(name string, most int) []json.RawMessage {
	raw, given := b.fields[name]
	if !given {
		return nil
	}
	var items []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &items) != nil || len(items) == 0 || len(items) > most {
		b.reject(name, "must be a list of 1 to %d", most)
		return nil
	}
	return items
}

// instant reads RFC 3339, into UTC.
func (b *body) instant(name string) time.Time {
	raw, given := b.fields[name]
	if !given {
		return time.Time{}
	}
	value, _ := textOf(raw)
	t, ok := parseInstant(value)
	if !ok {
		b.reject(name, notAnInstant)
		return time.Time{}
	}
	return t
}

// item names one item of a list in errors.
func item(name string, i int) string { return fmt.Sprintf("%s[%d]", name, i) }
