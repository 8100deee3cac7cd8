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
// encoding/json: it refuses fields that are unknown, null, given twice or of the wrong
// type. A filter that was ignored would retry more than the caller meant.
type body struct {
	*fieldErrors
	// prefix is the path of a nested object, such as "ramp.".
	prefix string
	fields map[string]json.RawMessage
	// isQuery is set for the filters of a query, and isNegation for a value that excludes messages.
	isQuery, isNegation bool
}

// maxIntegerDigits is the most digits that an int64 can have.
const maxIntegerDigits = 19

// jsonSpace is JSON's white space.
const jsonSpace = " \t\r\n"

// readBody reads the object of a request. A request without a body counts
// as an object without fields.
func readBody(c *fiber.Ctx, known ...string) *body {
	b := &body{fieldErrors: &fieldErrors{}}
	raw := bytes.Trim(c.Request().Body(), jsonSpace) // as sent: Fiber's own Body would decompress it without a limit
	if len(raw) == 0 {
		b.fields = map[string]json.RawMessage{}
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
		b.parse(raw, known)
	}
	return b
}

func (b *body) parse(raw []byte, known []string) {
	if !json.Valid(raw) {
		b.reject("body", "is not valid JSON: %v", json.Unmarshal(raw, new(json.RawMessage)))
		return
	}
	b.object("body", bytes.Trim(raw, jsonSpace), known)
}

func (b *body) err() error { return b.toError("invalid request body") }

func (b *body) reject(field, format string, args ...any) {
	b.fieldErrors.reject(b.prefix+field, format, args...)
}

// require adds an error for a missing field, unless the body itself could not be read.
func (b *body) require(name string) {
	if _, given := b.fields[name]; !given && b.fields != nil {
		b.reject(name, "is required")
	}
}

// object splits an object of valid JSON into its fields. label names the object in errors. If
// known is nil, its fields may have any name.
func (b *body) object(label string, raw []byte, known []string) {
	if raw[0] != '{' {
		b.fieldErrors.reject(label, "must be a JSON object")
		return
	}
	b.fields = map[string]json.RawMessage{}
	for _, field := range membersOf(raw) {
		name, value := field.name, field.value
		_, twice := b.fields[name]
		switch {
		case known != nil && !slices.Contains(known, name):
			b.reject(excerpt(name), "unknown field; known are %s", strings.Join(known, ", "))
		case twice:
			b.reject(excerpt(name), "is given more than once")
		}
		b.fields[name] = value
	}
}

// nested reads a field whose value is an object. It returns nil when the field is not given.
func (b *body) nested(name string, known ...string) *body {
	raw, given := b.fields[name]
	if !given {
		return nil
	}
	return b.inner(name, raw, known)
}

// inner reads an object within this object.
func (b *body) inner(name string, raw []byte, known []string) *body {
	inner := &body{fieldErrors: b.fieldErrors, prefix: b.prefix + name + "."}
	inner.object(b.prefix+name, raw, known)
	return inner
}

// one reads a string. Any other value counts as an empty string.
func (b *body) one(name string) (value string, given bool) {
	raw, given := b.fields[name]
	if given {
		value, _ = textOf(raw)
	}
	return value, given
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
		b.reject(name, "must be a string, UTF-8 without NUL; omit the field instead of sending null")
	case utf8.RuneCountInString(value) > limit:
		b.reject(name, "must be at most %d characters", limit)
	default:
		return value, true
	}
	return "", false
}

// textOf decodes a JSON string that PostgreSQL accepts as TEXT. It refuses a lone
// surrogate, which decoding would replace by another character.
func textOf(raw json.RawMessage) (string, bool) {
	var value string
	if raw[0] != '"' || dlq.PayloadOf(raw) == nil || json.Unmarshal(raw, &value) != nil {
		return "", false
	}
	return value, isText(value)
}

// integer reads a number. The number is 0 when the field is not given.
func (b *body) integer(name string, least, most int) int {
	raw, given := b.fields[name]
	if !given {
		return 0
	}
	value, ok := integerOf(raw)
	if !ok || value < least || value > most {
		b.reject(name, "must be an integer from %d to %d", least, most)
		return 0
	}
	return value
}

// integerOf decodes a JSON number without a fractional part in any notation. JSON
// Schema counts 3348.0 and 1e3 as integers, and some programs write every number like
// that. integerOf works on the digits: a float64 would read 1.00000000000000000001 as 1,
// and big.Rat would compute 1e999999999 in full.
func integerOf(raw json.RawMessage) (int, bool) {
	mantissa, exponent, hasExponent := strings.Cut(strings.ToLower(string(raw)), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimRight(whole+fraction, "0")
	if digits == "" || digits == "-" {
		return 0, true // zero at any exponent
	}
	zeros := len(whole) - len(digits) // to append to the digits
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

// duration reads a duration from least to most. An error describes the limits with format.
func (b *body) duration(name string, fallback, least, most time.Duration, format string) time.Duration {
	text, given := b.one(name)
	if !given {
		return fallback
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > most {
		b.reject(name, "must be a duration "+format, durationText(least), durationText(most))
	}
	return d
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
	if raw[0] == '[' {
		items = elementsOf(raw)
	}
	if len(items) == 0 || len(items) > most {
		b.reject(name, "must be a list of 1 to %d", most)
		return nil
	}
	return items
}

func item(name string, i int) string { return fmt.Sprintf("%s[%d]", name, i) }

func readReason(c *fiber.Ctx) error {
	b := readBody(c, "reason")
	b.reason(c)
	return b.err()
}

func (b *body) reason(c *fiber.Ctx) string {
	reason, _ := b.text("reason", maxBulkText)
	auditOf(c).Reason = reason
	return reason
}
