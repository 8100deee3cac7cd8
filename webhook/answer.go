package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"dlqmanager/dlq"
)

const (
	// statusNonRetryable is the status for a message that no retry can deliver. The header headerNonRetryable with a status
	// other than 2xx means the same.
	statusNonRetryable = 489
	headerNonRetryable = "Upstash-Nonretryable-Error" // Go's spelling; servers write Upstash-NonRetryable-Error

	// maxAnswerText is the number of bytes of an answer that an error quotes.
	maxAnswerText = 2 << 10
	// maxAnswerRead is the number of bytes of an answer that are read, so that its connection can be used again.
	maxAnswerRead = 64 << 10
	// answerTime limits the reading of an answer's body. The status has already decided the result.
	answerTime = time.Second

	maxRetryAfter = time.Hour
)

// categoryOf chooses the category by the status of an answer other than 2xx. Documents of products name the meaning of some
// statuses. The other statuses mean:
//   - After 408, 409 (a request with the same idempotency key is still running), 423 and 425, a later attempt may succeed.
//   - With 411, 414, 415 and 431, the endpoint refuses the record itself.
//   - With other redirects and other 4xx, such as 404, 405 and 410, the URL or the endpoint must be changed. As with 401, the
//     message is not at fault, and another attempt soon would not help.
func categoryOf(status int, h http.Header) dlq.Category {
	if status == statusNonRetryable || strings.EqualFold(strings.TrimSpace(h.Get(headerNonRetryable)), "true") {
		return dlq.CategoryBadData
	}
	switch status {
	case http.StatusTooManyRequests:
		return dlq.CategoryRateLimit
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity,
		http.StatusLengthRequired, http.StatusRequestURITooLong, http.StatusUnsupportedMediaType, http.StatusRequestHeaderFieldsTooLarge:
		return dlq.CategoryBadData
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusLocked, http.StatusTooEarly:
		return dlq.CategoryTransient
	}
	if status >= 300 && status < 500 {
		return dlq.CategoryAuth
	}
	return dlq.CategoryTransient
}

// refusal is the error of an answer; nil for 2xx.
func (t *target) refusal(response *http.Response) error {
	status := response.StatusCode
	if status >= 200 && status < 300 {
		_, _ = io.CopyN(io.Discard, response.Body, maxAnswerRead)
		return nil
	}
	category := categoryOf(status, response.Header)
	err := &dlq.DeliveryError{
		Category: category, TargetOnly: isConfiguration(category, status), MaybeMessage: category == dlq.CategoryTransient && !isAway(status),
	}
	if category == dlq.CategoryRateLimit {
		err.RetryAfter = retryAfter(response.Header.Get("Retry-After"), time.Now())
	}
	text := strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
	if category == dlq.CategoryAuth && status < 400 {
		text += ", a redirect, which is not followed"
	}
	if body := t.answerText(response); body != "" {
		text += ": " + body
	}
	err.Err = fmt.Errorf("%s answered %s", t.name, text)
	return err
}

// isConfiguration tells whether a status means that all messages are refused until the URL, the endpoint or its credentials are
// changed.
func isConfiguration(category dlq.Category, status int) bool {
	return category == dlq.CategoryAuth &&
		(status < 400 || status == http.StatusUnauthorized || status == http.StatusMethodNotAllowed || status == http.StatusGone)
}

// isAway tells whether a status is from a proxy whose server is away, or from a server that takes no requests now.
func isAway(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// answerText is the beginning of an answer's body. It leaves out secrets that the endpoint may have repeated.
func (t *target) answerText(response *http.Response) string {
	if response.StatusCode == http.StatusSwitchingProtocols {
		return "" // the body is the raw connection, which the end of ctx does not close
	}
	data, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswerRead))
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return fmt.Sprintf("(%d bytes, compressed)", len(data))
	}
	return shorten(t.scrub(dlq.StorableText(string(data))))
}

// shorten cuts a text, and does not cut a character in two.
func shorten(text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= maxAnswerText {
		return text
	}
	return strings.ToValidUTF8(text[:maxAnswerText], "") + "…"
}

// scrub removes the secrets of the endpoint from a text. It also finds secrets that a page has escaped.
func (t *target) scrub(text string) string {
	secrets := slices.Concat(t.token.known(), t.secrets.known())
	if parsed, err := url.Parse(t.url); err == nil && parsed.RawQuery != "" {
		secrets = append(secrets, parsed.RawQuery)
		for _, values := range parsed.Query() {
			secrets = append(secrets, values...)
		}
	}
	for _, secret := range secrets {
		bare := strings.TrimPrefix(secret, secretPrefix)
		for _, form := range []string{secret, bare, url.QueryEscape(bare), url.PathEscape(bare), html.EscapeString(bare), strings.ReplaceAll(bare, "/", `\/`)} {
			if len(form) >= minScrubbed {
				text = strings.ReplaceAll(text, form, "[redacted]")
			}
		}
	}
	return text
}

// minScrubbed is the length of the shortest value that scrub removes. Shorter values of a query, such as 1, stay.
const minScrubbed = 4

// retryAfter reads the header Retry-After, which is in seconds or a date. It returns 0 without the header.
func retryAfter(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

// failure is the error of a request that got no answer. If sent is set, the request was written, so the message may be the
// cause.
func (t *target) failure(err error, sent bool) error {
	var (
		refused     *guardError
		certificate *tls.CertificateVerificationError
		header      tls.RecordHeaderError
		alert       tls.AlertError
	)
	failure := &dlq.DeliveryError{Category: dlq.CategoryTransient, MaybeMessage: sent}
	switch {
	case errors.As(err, &refused):
		failure.Category, failure.TargetOnly, failure.MaybeMessage, err = dlq.CategoryAuth, true, false, refused
	case errors.As(err, &certificate), errors.As(err, &alert), errors.As(err, &header):
		failure.Category, failure.TargetOnly, failure.MaybeMessage = dlq.CategoryAuth, true, false
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no answer within %s", t.timeout)
	}
	failure.Err = fmt.Errorf("send to %s: %s", t.name, shorten(t.scrub(dlq.StorableText(err.Error()))))
	return failure
}
