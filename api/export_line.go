package api

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"dlqmanager/dlq"
)

// exportedView has the short fields of a line. A field of the type hidden removes the field of the same name from detailView.
// The line has that field in another form, or does not have it.
type exportedView struct {
	detailView
	ErrorMessage hidden `json:"error_message,omitempty"`
	StackTrace   hidden `json:"stack_trace,omitempty"`
	Payload      hidden `json:"payload,omitempty"`
	Key          hidden `json:"key,omitempty"`
	Value        hidden `json:"value,omitempty"`
	Headers      hidden `json:"headers,omitempty"`
	Pointed      hidden `json:"pointed,omitempty"`
	DecodedKey   hidden `json:"decoded_key,omitempty"`
	GroupedBy    hidden `json:"grouped_by,omitempty"`
}

type hidden *struct{}

// exportWriter writes the lines of an export. It writes texts and bytes of any size in pieces, so that no line is in memory as
// a whole.
type exportWriter struct {
	out    *bufio.Writer // returns its first error again
	fields bytes.Buffer
}

// message writes the line of a message. It returns the first error of this line or of an earlier line.
func (w *exportWriter) message(view *exportedView, m *dlq.Detail, cursor string) error {
	if err := w.encode(view); err != nil {
		return err
	}
	_, _ = w.out.Write(bytes.TrimSuffix(w.fields.Bytes(), []byte("}\n")))
	w.name("error_message")
	w.text(m.ErrorMessage)
	w.name("stack_trace")
	if m.Failure.StackTrace == "" {
		w.raw("null")
	} else {
		w.text(m.Failure.StackTrace)
	}
	w.name("payload")
	w.json(payloadOf(m))
	w.name("key")
	w.bytes(m.Record.Key)
	w.name("value")
	w.bytes(m.Record.Value)
	w.name("headers")
	w.raw("[")
	for i, header := range m.Record.Headers {
		if i > 0 {
			w.raw(",")
		}
		w.header(header)
	}
	w.raw("]")
	w.name("cursor")
	w.text(cursor)
	_, err := w.out.WriteString("}\n")
	return err
}

// last writes the last line of an export, and flushes it.
func (w *exportWriter) last(view any) error {
	if err := w.encode(view); err != nil {
		return err
	}
	_, _ = w.out.Write(w.fields.Bytes())
	return w.out.Flush()
}

func (w *exportWriter) encode(view any) error {
	w.fields.Reset()
	return encode(&w.fields, view)
}

// payloadOf is the payload of a message, or its value if the value is JSON. The bytes of the value stay, so no number and no
// order of fields changes.
func payloadOf(m *dlq.Detail) json.RawMessage {
	if len(m.Payload) > 0 {
		return m.Payload
	}
	return dlq.PayloadOf(m.Record.Value)
}

func (w *exportWriter) raw(text string) { _, _ = w.out.WriteString(text) }

func (w *exportWriter) name(field string) { w.raw(`,"` + field + `":`) }

// json writes valid JSON in one line. It removes line breaks, which in valid JSON stand only between tokens.
func (w *exportWriter) json(value json.RawMessage) {
	if len(value) == 0 {
		w.raw("null")
	}
	for line := range bytes.FieldsFuncSeq(value, func(c rune) bool { return c == '\n' || c == '\r' }) {
		_, _ = w.out.Write(line)
	}
}

// bytes writes bytes as base64, and also as text if they are UTF-8. A null in Kafka is null in JSON.
func (w *exportWriter) bytes(b []byte) {
	if b == nil {
		w.raw("null")
		return
	}
	w.raw(`{"base64":`)
	w.base64(b)
	w.raw(`,"size":` + strconv.Itoa(len(b)) + `,"text":`)
	w.textOf(b)
	w.raw("}")
}

// header writes a header. A name that is not UTF-8 is also written as base64.
func (w *exportWriter) header(h dlq.Header) {
	w.raw(`{"key":`)
	w.text(strings.ToValidUTF8(h.Key, string(utf8.RuneError)))
	if !utf8.ValidString(h.Key) {
		w.name("key_base64")
		w.base64([]byte(h.Key))
	}
	w.name("value")
	if h.Value == nil {
		w.raw(`null,"text":null}`)
		return
	}
	w.base64(h.Value)
	w.name("text")
	w.textOf(h.Value)
	w.raw("}")
}

func (w *exportWriter) base64(b []byte) {
	w.raw(`"`)
	encoder := base64.NewEncoder(base64.StdEncoding, w.out)
	_, _ = encoder.Write(b)
	_ = encoder.Close() // out returns the error again
	w.raw(`"`)
}

func (w *exportWriter) textOf(b []byte) {
	if !utf8.Valid(b) {
		w.raw("null")
		return
	}
	writeText(w, b)
}

func (w *exportWriter) text(s string) { writeText(w, s) }

// textPiece is the number of bytes of a text that are encoded at once.
const textPiece = 4 << 10

// writeText writes UTF-8 as a string of JSON.
func writeText[T string | []byte](w *exportWriter, text T) {
	w.raw(`"`)
	for len(text) > 0 {
		end := min(len(text), textPiece)
		for end < len(text) && end > textPiece-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		_ = w.encode(string(text[:end])) // a text always encodes
		_, _ = w.out.Write(w.fields.Bytes()[1 : w.fields.Len()-len("\"\n")])
		text = text[end:]
	}
	w.raw(`"`)
}
