package api

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

// editFields are the fields of a retry that change the message. If one of them is given, the retry sends an edited copy.
var editFields = []string{"value", "value_base64", "key", "key_base64", "headers"}

// maxEditHeaders limits the headers of a message, since a header may be very small compared with the body limit.
const maxEditHeaders = 10_000

// edit reads the changes of a message. It returns nil when the request has no changes.
func (b *body) edit() *dlq.Edit {
	edit := &dlq.Edit{Key: b.bytes("key"), Value: b.bytes("value")}
	if raw, given := b.fields["value"]; given && string(raw) != "null" {
		value := []byte(raw) // the JSON as it was sent
		edit.Value, edit.IsJSON = &value, true
	}
	if raw, given := b.fields["headers"]; given {
		headers := b.recordHeaders(raw)
		edit.Headers = &headers
	}
	if edit.Key == nil && edit.Value == nil && edit.Headers == nil {
		return nil
	}
	return edit
}

// bytes reads the key or the value of a record: a text, bytes in base64, or null. A value that is JSON is read by edit.
func (b *body) bytes(name string) *[]byte {
	plain, isPlain := b.fields[name]
	encoded, isEncoded := b.fields[name+"_base64"]
	switch {
	case isPlain && isEncoded:
		b.reject(name, "cannot be given together with %s_base64", name)
	case isEncoded:
		text, _ := textOf(encoded)
		bytes, err := base64.StdEncoding.DecodeString(text)
		if err != nil || string(encoded) == "null" {
			b.reject(name+"_base64", "must be base64 (RFC 4648, with padding)")
		}
		return &bytes
	case isPlain && string(plain) == "null":
		return new([]byte)
	case isPlain && name == "key":
		text, ok := textOf(plain)
		if !ok {
			b.reject(name, "must be a string, UTF-8 without NUL, or null; use key_base64 for other bytes")
		}
		bytes := []byte(text)
		return &bytes
	}
	return nil
}

// recordHeaders reads a list of headers, or an object of names and texts.
func (b *body) recordHeaders(raw json.RawMessage) []dlq.Header {
	if raw[0] == '{' {
		named := b.inner("headers", raw, nil)
		headers := make([]dlq.Header, 0, len(named.fields))
		for name := range named.fields {
			headers = append(headers, dlq.Header{Key: name, Value: named.headerValue(name)})
		}
		slices.SortFunc(headers, func(x, y dlq.Header) int { return strings.Compare(x.Key, y.Key) })
		return headers
	}
	var items []json.RawMessage
	if raw[0] == '[' {
		items = elementsOf(raw)
	}
	if raw[0] != '[' || len(items) > maxEditHeaders {
		b.reject("headers", "must be an object of names and texts, or a list of at most %d objects with key and value or value_base64", maxEditHeaders)
		return nil
	}
	headers := make([]dlq.Header, 0, len(items))
	for i, one := range items {
		header := b.inner(item("headers", i), one, []string{"key", "value", "value_base64"})
		header.require("key")
		key, _ := header.text("key", maxBulkKey)
		if _, isEncoded := header.fields["value_base64"]; isEncoded {
			if value := header.bytes("value"); value != nil {
				headers = append(headers, dlq.Header{Key: key, Value: *value})
			}
			continue
		}
		header.require("value")
		headers = append(headers, dlq.Header{Key: key, Value: header.headerValue("value")})
	}
	return headers
}

// headerValue reads a text, or null.
func (b *body) headerValue(name string) []byte {
	raw, given := b.fields[name]
	if !given || string(raw) == "null" {
		return nil
	}
	text, ok := textOf(raw)
	if !ok {
		b.reject(name, "must be a string, UTF-8 without NUL, or null; use a list with value_base64 for other bytes")
	}
	return []byte(text)
}

// fixedHeaders name the class of the object that a consumer makes of a record. An edit cannot change them.
var fixedHeaders = []string{"spring_json_header_types", "spring.kafka.serialization.selector"}

// replace stores an edited copy of a message, and ends the message as replaced. The caller retries the copy.
func (s *Server) replace(ctx context.Context, c *fiber.Ctx, id dlq.ID, edit *dlq.Edit, requested string) (dlq.Message, error) {
	if err := s.reserveDetail(ctx, c, id, false); err != nil {
		return dlq.Message{}, err
	}
	defer settle(c, 0)
	changed := edit.Fields()
	read := s.guard.editable
	if len(changed) == 0 { // the copy is unchanged
		read = func(ctx context.Context, id dlq.ID) (dlq.Detail, error) { return s.guard.stored(ctx, id, false) }
	}
	d, err := read(ctx, id)
	if err != nil {
		return dlq.Message{}, err
	}
	if d.Unreadable != nil {
		return dlq.Message{}, conflict(d.Unreadable.Error(), nil)
	}
	suspicion, errs := d.Failure.Suspicion, &fieldErrors{}
	if edit.Headers != nil {
		for _, name := range fixedHeaders {
			if !slices.EqualFunc(headersNamed(d.Record.Headers, name), headersNamed(*edit.Headers, name), equalHeaders) {
				errs.reject("headers", "%s cannot be edited: it decides which class a consumer makes of the record", name)
			}
		}
		if suspicion = s.options.Suspicion(*edit.Headers); suspicion != "" && suspicion != d.Failure.Suspicion {
			errs.reject("headers", "%s", suspicion)
		}
		suspicion = cmp.Or(suspicion, s.options.Topics.ForeignOrigin(d.DLQTopic, d.OriginalTopic))
	}
	if d.IsPointer() && len(changed) > 0 && (edit.Value == nil || edit.Headers == nil || edit.Key == nil) {
		errs.reject("body", "this message only points to its record in Kafka; give key, value and headers of the copy")
	}
	var decoded dlq.Decoded
	if _, ok := dlq.SchemaIDOf(d.Record.Value); ok && edit.IsJSON {
		if decoded, err = s.encode(ctx, &d, edit); err != nil && !errs.rejectUnencodable(err) {
			return dlq.Message{}, err
		}
	}
	edited := edit.Copy(&d, suspicion)
	if decoded.JSON != nil {
		edited.Schema, edited.Payload = decoded.Schema, dlq.PayloadOf(decoded.JSON)
	}
	if len(changed) > 0 && isPointer(&edited.Record) {
		errs.reject("body", "a copy %s", badPointer)
	}
	if err := errs.toError("this edit is not possible"); err != nil {
		return dlq.Message{}, err
	}
	asked := auditOf(c)
	detail := map[string]any{"command": "edit", "copy_id": edited.ID, "fields": changed} // without the edited bytes
	if requested != "" {
		detail["target_topic"] = requested
	}
	describe(asked, detail)
	return s.guard.Replace(ctx, asked, id, edited)
}

// encode encodes the JSON of an edit with the schema of the message's value.
func (s *Server) encode(ctx context.Context, d *dlq.Detail, edit *dlq.Edit) (dlq.Decoded, error) {
	if s.options.Decoder == nil {
		return dlq.Decoded{}, &dlq.EncodeError{Reason: "its schema is not known without schema_registry.url"}
	}
	value, decoded, err := s.options.Decoder.Encode(ctx, d.OriginalTopic, d.Record.Value, *edit.Value)
	switch {
	case errors.Is(err, dlq.ErrUnavailable):
		return decoded, unavailable("the value was not encoded, so nothing was changed: "+err.Error()+"; try later, or send bytes as value_base64", err)
	case err == nil:
		edit.Value = &value
	}
	return decoded, err
}

// rejectUnencodable reports whether err says that the value does not fit its schema, and then rejects the value.
func (e *fieldErrors) rejectUnencodable(err error) bool {
	var refused *dlq.EncodeError
	if errors.As(err, &refused) {
		e.reject("value", "cannot be encoded with the schema of the value: %s; value_base64 takes any bytes", refused.Reason)
	}
	return refused != nil
}

// pointerHeaders is the prefix of the headers that Kafka's share groups write to a dead letter.
const pointerHeaders = "__dlq.errors."

const badPointer = "without key and value must have no " + pointerHeaders +
	" headers: it would only point to a record, which would be shown and sent instead"

// isPointer reports whether a record may be a pointer. The publisher would send the record that the pointer names instead.
func isPointer(r *dlq.Record) bool {
	return r.Key == nil && r.Value == nil &&
		slices.ContainsFunc(r.Headers, func(h dlq.Header) bool { return strings.HasPrefix(h.Key, pointerHeaders) })
}

func headersNamed(headers []dlq.Header, name string) []dlq.Header {
	return slices.DeleteFunc(slices.Clone(headers), func(h dlq.Header) bool { return h.Key != name })
}

func equalHeaders(a, b dlq.Header) bool {
	return a.Key == b.Key && (a.Value == nil) == (b.Value == nil) && string(a.Value) == string(b.Value)
}
