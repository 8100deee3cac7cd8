package console

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"dlqmanager/client"
)

// Forms in which bytes are edited.
const (
	formText   = "text"
	formBase64 = "base64"
	formNull   = "null"
	// formJSON is JSON with indents. A changed text is sent compact, unless the value had line ends.
	formJSON = "json"
	// formSchema is JSON that the server encodes with the schema of the message.
	formSchema = "schema"
)

// editForm has the fields of the form.
type editForm struct {
	ValueForm, Value string
	KeyForm, Key     string
	EditHeaders      []editHeader
	Target, Reason   string
	// Seen names the state of the message when the form was made. Reviewed names the changes that the person has reviewed.
	Seen, Reviewed string
}

// editHeader is one header of the form.
type editHeader struct {
	Key, Form, Text string
	// From is the position of the header in the message, -1 for a new header.
	From int
	// IsFixed headers cannot be changed, IsRemoved headers are left out.
	IsFixed, IsRemoved bool
	// IsStrange is set if a browser would change the header's name in a field. So the name cannot be
	// edited.
	IsStrange bool
}

// fixedHeaders choose the class that a consumer deserializes a record into. The server refuses to change them.
var fixedHeaders = map[string]bool{"spring_json_header_types": true, "spring.kafka.serialization.selector": true}

// newEditForm fills the form from the message. as is the wanted form of the value; empty for the best form.
func newEditForm(m *client.MessageDetail, as string) editForm {
	form := editForm{Seen: seenState(m)}
	form.ValueForm, form.Value = shownIn(contentOf(m.Value), false)
	switch {
	case as == formBase64 && m.Value != nil:
		form.ValueForm, form.Value = formBase64, base64.StdEncoding.EncodeToString(m.Value.Base64)
	case hasSchema(m):
		form.ValueForm, form.Value = formSchema, indentJSON(m.Payload)
	case as != formText && form.ValueForm == formText && isJSON(m.Value.Base64):
		form.ValueForm, form.Value = formJSON, indentJSON(m.Value.Base64)
	}
	form.KeyForm, form.Key = shownIn(contentOf(m.Key), true)
	for i, header := range m.Headers {
		h := editHeader{Key: header.Key, From: i, IsFixed: fixedHeaders[header.Key], IsStrange: isStrange(header.Key)}
		if h.IsStrange {
			h.Key = visible(h.Key)
		}
		h.Form, h.Text = shownIn(header.Value, false)
		form.EditHeaders = append(form.EditHeaders, h)
	}
	for range newHeaders {
		form.EditHeaders = append(form.EditHeaders, editHeader{Form: formText, From: -1})
	}
	return form
}

// hasSchema tells whether the payload was decoded from the value with a schema.
func hasSchema(m *client.MessageDetail) bool {
	return m.Schema != nil && m.Value != nil && m.DecodeError == nil && len(m.Payload) > 0 && string(m.Payload) != "null"
}

// shownIn writes bytes as a form shows them. A field of one line would lose line ends, so it shows a text with
// line ends as base64.
func shownIn(content *[]byte, isLine bool) (form, text string) {
	switch {
	case content == nil:
		return formNull, ""
	case isPlain(*content) && (!isLine || !bytes.ContainsAny(*content, "\r\n")):
		return formText, unixLines(string(*content))
	default:
		return formBase64, base64.StdEncoding.EncodeToString(*content)
	}
}

// isStrange tells whether a browser would change a name in a field of one line.
func isStrange(key string) bool { return !isPlain([]byte(key)) || strings.ContainsAny(key, "\r\n") }

// readEditForm reads the fields.
func (v *visit) readEditForm() editForm {
	form := editForm{
		ValueForm: v.PostFormValue("value_form"), Value: v.typed("value"), KeyForm: v.PostFormValue("key_form"), Key: v.typed("key"),
		Target: strings.TrimSpace(v.typed("target_topic")), Reason: strings.TrimSpace(v.typed("reason")),
		Seen: v.PostFormValue("seen"), Reviewed: v.PostFormValue("reviewed"),
	}
	for i := range maxEditHeaders + newHeaders {
		n := strconv.Itoa(i)
		from, err := strconv.Atoi(v.PostFormValue("header_from_" + n))
		if err != nil {
			break // the form has no further headers
		}
		key := v.typed("header_key_" + n)
		form.EditHeaders = append(form.EditHeaders, editHeader{
			Key: key, Form: v.PostFormValue("header_form_" + n), Text: v.typed("header_value_" + n), From: from,
			IsFixed: fixedHeaders[key] && from >= 0, IsRemoved: v.PostFormValue("header_remove_"+n) != "",
			IsStrange: v.PostFormValue("header_strange_"+n) != "",
		})
	}
	return form
}

// bytesOf reads the bytes of a field. An unchanged text stands for the old bytes, because a form loses CRs.
func (v *visit) bytesOf(name, form, text string, old *[]byte) (*[]byte, error) {
	switch form {
	case formNull:
		if text != "" {
			return nil, invalid(v.text("%s: there is a text, but null is chosen. Choose text, or clear it.", name))
		}
		return nil, nil //nolint:nilnil // nil is Kafka's null
	case formBase64:
		content, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
		if err != nil {
			return nil, invalid(v.text("%s: this is no base64 with padding.", name))
		}
		if content == nil {
			content = []byte{}
		}
		return &content, nil
	case formJSON:
		return v.bytesOfJSON(name, text, old)
	case formText:
		if old != nil && isPlain(*old) && unixLines(string(*old)) == text {
			return old, nil
		}
		content := []byte(text)
		return &content, nil
	default:
		return nil, invalid(v.text("%s: choose text, base64 or null.", name))
	}
}

// bytesOfJSON reads JSON that a form shows with indents.
func (v *visit) bytesOfJSON(name, text string, old *[]byte) (*[]byte, error) {
	if old != nil && isJSON(*old) && indentJSON(*old) == text {
		return old, nil
	}
	content := []byte(text)
	if !json.Valid(content) {
		return nil, invalid(v.text("%s: this is no JSON. To send it as it is, choose text.", name))
	}
	if old != nil && !bytes.ContainsAny(*old, "\r\n") {
		var compact bytes.Buffer
		if err := json.Compact(&compact, content); err != nil {
			return nil, err
		}
		content = compact.Bytes()
	}
	return &content, nil
}

// headersOf reads the headers of the form, in their order.
func (v *visit) headersOf(m *client.MessageDetail, form *editForm) (client.Headers, error) {
	headers := client.Headers{}
	for _, h := range form.EditHeaders {
		isNew := h.From < 0 || h.From >= len(m.Headers)
		if h.IsRemoved || isNew && h.Key == "" && h.Text == "" {
			continue
		}
		if h.Key == "" && (isNew || m.Headers[h.From].Key != "") {
			return nil, invalid(v.text("A header has a value but no name."))
		}
		item := client.Headers_Item{Key: h.Key}
		var old *[]byte
		if !isNew {
			old = m.Headers[h.From].Value
			if isStrange(m.Headers[h.From].Key) {
				item.Key = m.Headers[h.From].Key
			}
		}
		var err error
		if item.Value, err = v.bytesOf(item.Key, h.Form, h.Text, old); err != nil {
			return nil, err
		}
		headers = append(headers, item)
	}
	return headers, nil
}

// headersRequest writes headers as the API reads them. The client's type cannot express a null value.
func headersRequest(headers client.Headers) (*client.RetryRequest_Headers, error) {
	items := make([]map[string]any, 0, len(headers))
	for _, header := range headers {
		item := map[string]any{"key": header.Key}
		if header.Value == nil {
			item["value"] = nil
		} else {
			item["value_base64"] = *header.Value
		}
		items = append(items, item)
	}
	content, err := json.Marshal(items)
	if err != nil {
		return nil, err
	}
	request := &client.RetryRequest_Headers{}
	return request, request.UnmarshalJSON(content)
}

func contentOf(b *client.Bytes) *[]byte {
	if b == nil {
		return nil
	}
	content := append([]byte{}, b.Base64...)
	return &content
}

func same(a, b *[]byte) bool {
	return (a == nil) == (b == nil) && (a == nil || bytes.Equal(*a, *b))
}

func sameHeaders(a, b client.Headers) bool {
	return slices.EqualFunc(a, b, func(a, b client.Headers_Item) bool { return a.Key == b.Key && same(a.Value, b.Value) })
}
