package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"dlqmanager/dlq"
)

// Headers that describe the message.
const (
	headerID            = "Dlq-Message-Id"
	headerRetryCount    = "Dlq-Retry-Count"
	headerOriginalTopic = "Dlq-Original-Topic"
	headerKey           = "Dlq-Key"
	headerBinaryKey     = "Dlq-Binary-Key"
	// Headers of the record have one of these prefixes before their names. With the second
	// prefix the value is in base64.
	headerPrefix       = "Dlq-Header-"
	headerBinaryPrefix = "Dlq-Binary-Header-"
	// headerOmitted is how many headers of the record are left out; a key that is left out counts too.
	headerOmitted = "Dlq-Headers-Omitted"

	headerIdempotencyKey = "Idempotency-Key"
	headerSignature      = "webhook-signature"
)

// Many servers refuse requests with headers of more than 16 KiB in all, or 8 KiB each.
const (
	maxHeaderSize  = 4 << 10
	maxHeadersSize = 8 << 10
)

// newRequest builds the request for a message with its record from before it became a
// dead letter.
func (t *target) newRequest(ctx context.Context, e *dlq.Envelope, record *dlq.Record) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(record.Value))
	if err != nil {
		return nil, err
	}
	id := e.ID.String() + "-" + e.Token
	h := headers{Header: request.Header}
	h.Set("User-Agent", t.userAgent)
	h.Set(headerIdempotencyKey, id)
	h.Set(headerID, e.ID.String())
	h.Set(headerRetryCount, strconv.Itoa(e.RetryCount))
	if isPlain(e.OriginalTopic) { // any other value would make the request invalid
		h.Set(headerOriginalTopic, e.OriginalTopic)
	}
	h.Set("Content-Type", contentType(record))
	if record.Key != nil {
		h.put(headerKey, headerBinaryKey, record.Key)
	}
	h.addRecord(record.Headers)
	if h.omitted > 0 {
		h.Set(headerOmitted, strconv.Itoa(h.omitted))
	}
	t.sign(request.Header, id, record.Value)
	if token := t.token.current(); len(token) > 0 {
		h.Set("Authorization", "Bearer "+token[0])
	}
	return request, nil
}

// sign adds the headers of Standard Webhooks. The signature has a part for each secret, so
// that the endpoint accepts the request before and after a rotation.
func (t *target) sign(h http.Header, id string, body []byte) {
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	h["webhook-id"], h["webhook-timestamp"] = []string{id}, []string{timestamp}
	var signatures []string
	for _, secret := range t.secrets.current() {
		key, _ := signingKey(secret) // the file was checked
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	if signatures != nil {
		h[headerSignature] = []string{strings.Join(signatures, " ")}
	}
}

// headers are the headers of a request. Names and values from the record cannot break out of their
// line: they are printable ASCII, or in base64.
type headers struct {
	http.Header
	size, omitted int
}

// put adds a value of the record under the name that fits. A header that is too long is
// left out.
func (h *headers) put(name, binaryName string, value []byte) {
	text := string(value)
	if !isPlain(text) && text != "" {
		name, text = binaryName, base64.StdEncoding.EncodeToString(value)
	}
	size := len(name) + len(text) + len(": \r\n")
	if size > maxHeaderSize || h.size+size > maxHeadersSize {
		h.omitted++
		return
	}
	h.size += size
	h.Add(name, text)
}

// addRecord adds the record's headers. Headers with a trace or a correlation id keep their
// names.
func (h *headers) addRecord(list []dlq.Header) {
	for _, header := range list {
		name := strings.ToLower(header.Key)
		switch {
		case name == "content-type":
		case (name == "traceparent" || name == "tracestate" || dlq.IsCorrelationHeader(header.Key)) &&
			isToken(name) && len(header.Value) <= 512 && isPlain(string(header.Value)):
			if h.size += len(name) + len(header.Value); h.size <= maxHeadersSize {
				h.Set(header.Key, string(header.Value)) // the last header counts
			}
		case !isToken(header.Key):
			h.omitted++
		default:
			h.put(headerPrefix+header.Key, headerBinaryPrefix+header.Key, header.Value)
		}
	}
}

// contentType is the value of the record's header content-type, if valid, else it follows from the value of the record.
func contentType(r *dlq.Record) string {
	for _, header := range r.Headers {
		value := string(header.Value)
		if !strings.EqualFold(header.Key, "content-type") || len(value) > 255 || !isPlain(value) {
			continue
		}
		if kind, _, err := mime.ParseMediaType(value); err == nil && strings.Contains(kind, "/") {
			return value
		}
	}
	if json.Valid(r.Value) {
		return "application/json"
	}
	return "application/octet-stream"
}

// isPlain tells whether a header can have a text unchanged: the text is printable ASCII, and does
// not begin or end with a space, which servers remove.
func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return text != "" && text[0] != ' ' && text[len(text)-1] != ' '
}

// isToken tells whether a text can be in the name of a header.
func isToken(text string) bool {
	const symbols = "!#$%&'*+-.^_`|~"
	for i := range len(text) {
		c := text[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && strings.IndexByte(symbols, c) < 0 {
			return false
		}
	}
	return text != "" && len(text) <= 256
}
