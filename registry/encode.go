package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"

	"dlqmanager/dlq"
)

// Encode encodes the JSON of an edited value with the schema of the original value, which is in the wire
// format and was written to a topic. The newest version of the schema's subject must be able to read the
// result too, since consumers may use that version by now. decoded is the result of Decode for the returned
// value.
//
// The error is a *dlq.EncodeError if the JSON does not fit, or wraps dlq.ErrUnavailable if the
// registry does not answer within Options.Timeout.
func (d *Decoder) Encode(ctx context.Context, topic string, original []byte, edited json.RawMessage) (value []byte, decoded dlq.Decoded, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.o.Timeout)
	defer cancel()
	value, decoded, err = d.encode(ctx, topic, original, edited)
	switch {
	case err == nil:
		return value, decoded, nil
	case reasonOf(err) == reasonUnavailable:
		return nil, dlq.Decoded{}, fmt.Errorf("%w: %w", dlq.ErrUnavailable, err)
	default:
		return nil, dlq.Decoded{}, &dlq.EncodeError{Reason: err.Error()}
	}
}

func (d *Decoder) encode(ctx context.Context, topic string, original []byte, edited json.RawMessage) (value []byte, decoded dlq.Decoded, err error) {
	id, ok := dlq.SchemaIDOf(original)
	if !ok {
		return nil, decoded, badValue("the original is not in the wire format of a schema registry")
	}
	if len(edited) > maxValue {
		return nil, decoded, &failure{reasonTooLarge, fmt.Sprintf("it has %d bytes; at most %d are encoded", len(edited), maxValue)}
	}
	writer, err := d.schema(ctx, id)
	if err != nil {
		return nil, decoded, err
	}
	var content []byte
	err = guard(reasonValue, func() (err error) {
		content, err = writer.codec.encode(original[dlq.SchemaPrefix:], edited)
		return err
	})
	if err != nil {
		return nil, decoded, err
	}
	value = slices.Concat(original[:dlq.SchemaPrefix], content)
	if decoded, err = d.decode(writer, nil, id, topic, false, value); err != nil {
		return nil, decoded, err
	}
	subject := cmp.Or(decoded.Schema.Subject, topic+"-value")
	newestID, version, err := d.newest(ctx, subject)
	if err != nil || newestID == id || newestID == 0 {
		return value, decoded, err
	}
	newest, err := d.schema(ctx, newestID)
	if err == nil {
		err = guard(reasonValue, func() error { return newest.codec.reads(writer.codec, content) })
	}
	if err != nil {
		err = &failure{reasonOf(err), fmt.Sprintf("version %d of %s does not read it: %s", version, subject, err)}
	}
	return value, decoded, err
}

// newest returns the newest schema of a subject. The id is zero if there is none.
func (d *Decoder) newest(ctx context.Context, subject string) (id uint32, version int, err error) {
	if err := d.breaker.err(); err != nil {
		return 0, 0, err
	}
	const newestVersion = -1
	s, err := d.client.SchemaByVersion(ctx, subject, newestVersion)
	if err == nil {
		return uint32(s.ID), s.Version, nil
	}
	if err = unavailable(refusal(err, "there is no subject %s", subject)); reasonOf(err) == reasonUnknown {
		return 0, 0, nil // the subject was deleted, so nobody reads with it
	}
	return 0, 0, err
}

// parseJSON is stricter than encoding/json: it refuses names that occur twice, and text that is not
// Unicode, which encoding/json would replace. Numbers are json.Number.
func parseJSON(text []byte) (value any, err error) {
	if !json.Valid(text) || !utf8.Valid(text) {
		return nil, badValue("it is not JSON in UTF-8, or something follows it")
	}
	if bytes.Contains(wholeEscapes.ReplaceAll(text, nil), []byte(`\u`)) {
		return nil, badValue("it has half a surrogate pair")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return parseNext(decoder, 0)
}

// wholeEscapes are the escapes of JSON that stand for a character.
var wholeEscapes = regexp.MustCompile(`\\(u[dD][89abAB]..\\u[dD][c-fC-F]|u[^dD]|u[dD][0-7]|[^u])`)

func parseNext(decoder *json.Decoder, depth int) (any, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, badValue("it is not JSON: %s", short(err))
	}
	if depth > maxNesting {
		return nil, &failure{reasonTooLarge, fmt.Sprintf("it is nested more than %d levels deep", maxNesting)}
	}
	switch token {
	case json.Delim('['):
		list := []any{}
		for decoder.More() {
			item, err := parseNext(decoder, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		_, _ = decoder.Token() // the closing bracket
		return list, nil
	case json.Delim('{'):
		object := map[string]any{}
		for decoder.More() {
			token, err := decoder.Token()
			name, ok := token.(string)
			if err != nil || !ok {
				return nil, badValue("it is not JSON")
			}
			if _, twice := object[name]; twice {
				return nil, badValue("the name %.200q occurs twice", name)
			}
			if object[name], err = parseNext(decoder, depth+1); err != nil {
				return nil, err
			}
		}
		_, _ = decoder.Token() // the closing bracket
		return object, nil
	}
	if number, ok := token.(json.Number); ok && (len(number) > maxDigits || largeExponent.MatchString(number.String())) {
		return nil, badValue("it has a number with more than %d characters or an exponent beyond 999", maxDigits)
	}
	return token, nil
}

// Numbers are bounded, since a JSON Schema computes with exact fractions. All doubles fit, also
// doubles that are written without an exponent.
const maxDigits = 400

var largeExponent = regexp.MustCompile(`[eE][+-]?0*[1-9]\d{3}`)
