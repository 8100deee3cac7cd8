package dlq

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"

	"dlqmanager/dlq/masking"
)

// Shown is a message as shown to a reader who may not see its hidden parts.
type Shown struct {
	Detail
	// DecodedKey is the key that a Schema Registry has decoded.
	DecodedKey json.RawMessage
	quotes     masking.Quotes
}

// Text returns a text that may quote the message, without the quotes of hidden parts.
func (s *Shown) Text(text string) string { return s.quotes.Text(text) }

// Unread is for texts about messages that were not read. It hides every text.
func (k *Mask) Unread() *Shown {
	s := &Shown{}
	s.quotes.HideAll()
	return s
}

// Show hides parts of a message, and quotes of these parts in all other parts. It does not change the memory of d, so that d can
// still be sent back. decodedKey is the JSON of the key that a Schema Registry has decoded.
func (k *Mask) Show(d *Detail, decodedKey json.RawMessage) *Shown {
	return k.show(d, decodedKey, false)
}

// ShowUnread is Show for a message of which only the state was read.
func (k *Mask) ShowUnread(m *Message) *Shown {
	mask := *k
	for _, t := range k.tags { // without the record, the schema is unknown
		mask.value = append(slices.Clip(mask.value), t.target(masking.Whole))
	}
	return mask.show(&Detail{Message: *m}, nil, true)
}

func (k *Mask) show(d *Detail, decodedKey json.RawMessage, isPart bool) *Shown {
	s := &Shown{Detail: *d}
	h := hider{Mask: k, Shown: s}
	value := h.read("value", d.Record.Value, k.value)
	payload := h.read("value", d.Payload, k.value)
	key := h.read("key", d.Record.Key, k.key)
	plainKey := h.read("key", decodedKey, k.key)
	for _, header := range d.Record.Headers {
		if _, _, hidden := k.header(header.Key); hidden {
			s.quotes.AddOpaque(header.Value)
		}
	}
	isUnread := k.isValueEncoded && len(d.Payload) == 0 || k.isKeyEncoded && len(decodedKey) == 0
	if isPart || isUnread || d.IsPointer() || d.Unreadable != nil && len(k.headers) > 0 {
		s.quotes.HideAll() // errors may quote parts that were not read
	}
	if isPart {
		s.Payload = h.showJSON(payload, "value")
		h.texts()
		return s
	}
	s.Record.Value, s.Record.Key = h.show(value, "value"), h.show(key, "key")
	s.Payload, s.DecodedKey = h.showJSON(payload, "value"), h.showJSON(plainKey, "key")
	h.hideHeaders()
	h.texts()
	return s
}

// hider makes a Shown of a message.
type hider struct {
	*Mask
	*Shown
}

// hiddenPart is a value or a key, with its hidden parts.
type hiddenPart struct {
	text     []byte
	document masking.Document
	isJSON   bool
	as       masking.Form // of the whole part; empty if it is not hidden as a whole
}

// read finds the places that targets hide in a part. If there are targets, a part that cannot be read as JSON is hidden as a whole.
func (h hider) read(name string, text []byte, targets []masking.Target) hiddenPart {
	p := hiddenPart{text: text}
	if len(text) == 0 {
		return p
	}
	for _, t := range targets {
		if t.IsWhole() {
			p.as = masking.Stronger(t.As, p.as)
		}
	}
	if p.as == "" {
		p.document, p.isJSON = masking.Read(text, targets, &h.quotes)
		for i, t := range targets {
			if !p.isJSON {
				p.as = masking.Stronger(t.As, cmp.Or(p.as, masking.Mask))
			} else if p.document.Used[i] {
				h.mark(name + "." + t.String())
			}
		}
	}
	if p.as != "" {
		h.mark(name)
		h.quotes.AddOpaque(text)
	}
	return p
}

// show is the part as it is shown.
func (h hider) show(p hiddenPart, name string) []byte {
	switch {
	case len(p.text) == 0:
		return p.text
	case p.as == masking.Remove:
		return nil
	case p.as != "":
		return []byte(p.as.Of(plainOf(p.text), h.secret))
	}
	shown, isQuoted := p.document.Masked(h.secret, &h.quotes)
	if isQuoted {
		h.mark(name + ".**")
	}
	return shown
}

// showJSON is show for a part that stays JSON.
func (h hider) showJSON(p hiddenPart, name string) json.RawMessage {
	shown := h.show(p, name)
	if p.isJSON || len(shown) == 0 || bytes.Equal(shown, p.text) {
		return shown
	}
	quoted, _ := json.Marshal(string(shown)) // texts always encode
	return quoted
}

// plainOf is a string of JSON without its quotes, so that equal values have equal hashes.
func plainOf(text []byte) (plain string) {
	if text[0] == '"' && json.Unmarshal(text, &plain) == nil {
		return plain
	}
	return string(text)
}

func (h hider) hideHeaders() {
	if h.quotes.IsEmpty() && len(h.headers) == 0 {
		return
	}
	shown := make([]Header, 0, len(h.Record.Headers))
	for _, header := range h.Record.Headers {
		glob, as, hidden := h.header(header.Key)
		if hidden {
			h.mark("headers." + glob)
			switch {
			case as == masking.Remove:
				continue
			case len(header.Value) > 0:
				header.Value = []byte(as.Of(string(header.Value), h.secret))
			}
		} else if value := h.quotes.Bytes(header.Value); !bytes.Equal(value, header.Value) {
			h.mark("headers")
			header.Value = value
		}
		header.Key = h.quotes.Text(header.Key)
		shown = append(shown, header)
	}
	h.Record.Headers = shown
}

// texts replaces quotes in the texts of the message.
func (h hider) texts() {
	if h.quotes.IsEmpty() {
		return
	}
	for _, text := range []struct {
		name string
		at   *string
	}{
		{"error_message", &h.ErrorMessage}, {"error_class", &h.ErrorClass}, {"error_message", &h.Failure.ErrorMessage},
		{"error_class", &h.Failure.ErrorClass}, {"cause_class", &h.Failure.CauseClass}, {"stack_trace", &h.Failure.StackTrace},
		{"trace_id", &h.Failure.TraceID}, {"correlation_id", &h.Failure.CorrelationID}, {"suspicion", &h.Failure.Suspicion},
		{"decode_error", &h.DecodeError},
	} {
		if shown := h.quotes.Text(*text.at); shown != *text.at {
			h.mark(text.name)
			*text.at = shown
		}
	}
	h.Attempts = slices.Clone(h.Attempts)
	for i := range h.Attempts {
		if a := &h.Attempts[i]; h.quotes.Text(a.Error) != a.Error {
			h.mark("attempts")
			a.Error = h.quotes.Text(a.Error)
		}
	}
	if h.Unreadable != nil {
		h.Unreadable = errors.New(h.quotes.Text(h.Unreadable.Error()))
	}
}

func (h hider) mark(part string) {
	if !slices.Contains(h.Masked, part) {
		h.Masked = append(h.Masked, part)
	}
}
