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
	// The name of a record's header follows one of these prefixes. After the second prefix, the value is in base64.
	headerPrefix       = "Dlq-Header-"
	headerBinaryPrefix = "Dlq-Binary-Header-"
	// headerOmitted is the number of headers of the record that are left out. A key that is left out counts too.
	headerOmitted = "Dlq-Headers-Omitted"

	headerIdempotencyKey = "Idempotency-Key"
	headerSignature      = "webhook-signature"
)

// Many servers refuse requests if the headers exceed 16 KiB together, or if a header exceeds 8 KiB.
const (
	maxHeaderSize  = 4 << 10
	maxHeadersSize = 8 << 10
)

// newRequest makes the request for a message. record is the record as it was before it became a dead letter.
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
	if isPlain(e.OriginalTopic) { // another value would make the request invalid
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

// sign adds the headers of Standard Webhooks. It signs with each secret, so that the endpoint accepts the request before and
// after a rotation of secrets.
func (t *target) sign(h http.Header, id string, body []byte) {
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	h["webhook-id"], h["webhook-timestamp"] = []string{id}, []string{timestamp}
	var signatures []string
	for _, secret := range t.secrets.current() {
		key, _ := signingKey(secret) // checkSigning has checked the secrets
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	if signatures != nil {
		h[headerSignature] = []string{strings.Join(signatures, " ")}
	}
}

// headers are the headers of a request. Names and values from the record cannot begin a new line, since they are printable
// ASCII or base64.
type headers struct {
	http.Header
	size, omitted int
}

// put adds a value of the record. It uses name for printable ASCII, and binaryName for base64. It leaves out a header that is
// too long.
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

// addRecord adds the record's headers. A header with a trace or a correlation id keeps its name.
func (h *headers) addRecord(list []dlq.Header) {
	for _, header := range list {
		name := strings.ToLower(header.Key)
		switch {
		case name == "content-type":
		case (name == "traceparent" || name == "tracestate" || dlq.IsCorrelationHeader(header.Key)) &&
			isToken(name) && len(header.Value) <= 512 && isPlain(string(header.Value)):
			size := len(name) + len(header.Value)
			if h.size+size > maxHeadersSize {
				h.omitted++
				continue
			}
			h.size += size
			h.Set(header.Key, string(header.Value)) // of equal names, the last header counts
		case !isToken(header.Key):
			h.omitted++
		default:
			h.put(headerPrefix+header.Key, headerBinaryPrefix+header.Key, header.Value)
		}
	}
}

// contentType is the value of the record's header content-type if that value is valid. Otherwise it depends on the value of the
// record.
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

// isPlain tells whether a text can be the value of a header. It must be printable ASCII, and must not begin or end with a
// space, since servers remove such spaces.
func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return text != "" && text[0] != ' ' && text[len(text)-1] != ' '
}

// isToken tells whether a text can be a part of a header's name.
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
