package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// APIError is the answer to a request that the server, or a proxy in front of it, did not serve.
type APIError struct {
	Status int
	// Code is empty if a program other than the server has answered.
	Code      ErrorCode
	Message   string
	RequestID string
	// Details names the invalid fields, or the job that is in the way.
	Details []ErrorDetail
	// RetryAfter is how long the server asks to wait; zero if it does not ask.
	RetryAfter time.Duration
	// Body is the answer as it came, at most its first 64 KiB.
	Body []byte
}

// Error says the server's message, the details and the id of the request.
func (e *APIError) Error() string {
	var text strings.Builder
	if e.Code != "" {
		fmt.Fprintf(&text, "%s: ", e.Code)
	}
	text.WriteString(e.Message)
	for _, detail := range e.Details {
		fmt.Fprintf(&text, "; %s: %s", detail.Field, detail.Message)
	}
	fmt.Fprintf(&text, " (status %d", e.Status)
	if e.RequestID != "" {
		fmt.Fprintf(&text, ", request %s", e.RequestID)
	}
	return text.String() + ")"
}

// CodeOf returns the code of an error of the API; empty for other errors.
func CodeOf(err error) ErrorCode {
	if failed, ok := errors.AsType[*APIError](err); ok {
		return failed.Code
	}
	return ""
}

// maxErrorBody bounds the bytes that are read of an answer with an error.
const maxErrorBody = 64 << 10

// readError decodes an answer with a status of 400 or more.
func readError(response *received) error {
	if err := foreign(response); err != nil {
		return err
	}
	var body Error
	if err := json.Unmarshal(response.content, &body); err != nil || body.Error.Message == "" {
		body.Error.Message = "the answer does not say why"
	}
	return &APIError{
		Status: response.StatusCode, Code: body.Error.Code, Message: body.Error.Message, RequestID: body.Error.RequestID,
		Details: body.Error.Details, RetryAfter: retryAfter(response.Header, time.Now()), Body: response.content,
	}
}

// foreign returns an error if the answer is not the server's JSON but, for example, the sign-in page of a proxy.
func foreign(response *received) error {
	content := response.content
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if kind == "application/json" && json.Valid(content) {
		return nil
	}
	failed := &APIError{
		Status: response.StatusCode, RequestID: response.Header.Get("X-Request-Id"),
		RetryAfter: retryAfter(response.Header, time.Now()), Body: content[:min(len(content), maxErrorBody)],
	}
	if kind == "application/json" {
		kind = "broken or cut JSON"
	}
	failed.Message = fmt.Sprintf("%s answered with %s instead of JSON; a proxy or another program may be in between: check the address of the server",
		response.Request.URL.Host, describe(kind))
	return failed
}

func describe(kind string) string {
	if kind == "" {
		return "something unnamed"
	}
	return kind
}

// retryAfter reads the header, which has seconds or a date.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
