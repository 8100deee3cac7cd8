package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"mime"
	"net/http"
)

// ExportedMessage is one message of an export.
type ExportedMessage struct {
	MessageLine
	// Raw is the line as it came, without its line break.
	Raw json.RawMessage `json:"-"`
}

// ExportError is the error of an export that has begun and was cut off.
type ExportError struct {
	// Cursor continues the export after the last message that came. If no message came, Cursor is where the export
	// began: empty for the beginning of the topic.
	Cursor string
	// Count is how many messages came.
	Count int64
	// Err is the reason: an *APIError if the server gave it.
	Err error
}

// Error says how far the export came, and the reason.
func (e *ExportError) Error() string {
	return fmt.Sprintf("the export was cut off after %d messages; continue at the cursor %q: %s", e.Count, e.Cursor, e.Err)
}

// Unwrap returns the reason.
func (e *ExportError) Unwrap() error { return e.Err }

var errNoEnd = errors.New("the answer ended without its last line")

// SeeEnd puts the last line of a complete export into end. Its cursor is where a later export continues.
func SeeEnd(end *EndLine) RequestOption { return func(r *request) { r.end = end } }

// Export reads whole messages of a topic, the oldest first. params may be nil. The export is complete unless the last
// element has an error, which is an *ExportError if the answer was cut off. Only ctx limits the time. One line at a time
// is in memory, at most 256 MiB.
func (c *Client) Export(ctx context.Context, topic string, params *ExportMessagesParams, options ...RequestOption) iter.Seq2[ExportedMessage, error] {
	return func(yield func(ExportedMessage, error) bool) {
		r := requestExportMessages(ctx, topic, params)
		r.isStream = true
		if err := c.export(ctx, r, options, func(m ExportedMessage) bool { return yield(m, nil) }); err != nil {
			yield(ExportedMessage{}, err)
		}
	}
}

// export returns nil at the end of the export, and when take wants no more messages.
func (c *Client) export(ctx context.Context, r *request, options []RequestOption, take func(ExportedMessage) bool) error {
	if err := r.check(); err != nil {
		return err
	}
	for _, option := range options {
		option(r)
	}
	response, err := c.deliver(ctx, r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		return readError(response)
	}
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind != streamed {
		return foreign(response)
	}
	cut := &ExportError{Cursor: r.query.Get("cursor")}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		line := exportLine{ExportedMessage: ExportedMessage{Raw: bytes.Clone(lines.Bytes())}}
		switch err := line.read(); {
		case err != nil:
			cut.Err = err
			if lines.Err() != nil {
				cut.Err = lines.Err()
			}
			return cut
		case line.Error != nil:
			cut.Err = &APIError{Status: response.StatusCode, Code: line.Error.Code, Message: line.Error.Message,
				RequestID: line.Error.RequestID, Details: line.Error.Details, Body: line.Raw}
			return cut
		case line.End != nil:
			if r.end != nil {
				return json.Unmarshal(line.Raw, r.end)
			}
			return nil
		}
		cut.Cursor = line.Cursor
		cut.Count++
		if !take(line.ExportedMessage) {
			return nil
		}
	}
	if cut.Err = lines.Err(); cut.Err == nil {
		cut.Err = errNoEnd
	}
	return cut
}

// exportLine is a line of an export: a message, the end, or an error.
type exportLine struct {
	ExportedMessage
	End   *struct{}  `json:"end"`
	Error *ErrorBody `json:"error"`
}

// read decodes the line. A line that was cut off is no JSON, so it is an error.
func (l *exportLine) read() error {
	if err := json.Unmarshal(l.Raw, l); err != nil {
		return fmt.Errorf("a line differs from the contract of this client: %w", err)
	}
	if l.End == nil && l.Error == nil && l.Cursor == "" {
		return errors.New("a line is no message, no end and no error")
	}
	return nil
}
