package console

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"dlqmanager/client"
)

// messageData is the page of one message.
type messageData struct {
	messageParts

	// Seen is the state of the message when the page was made. Its forms act on this state only.
	Seen string
	// Every is how often the page reads the state again, in seconds.
	Every int
	// Request is the newest known single retry of the message that has not ended; nil if there is none.
	Request *client.SingleRetry
	// CanJoin is set if a retry would join a running retry, or take over from a retry whose workflow was ended in Temporal.
	CanJoin bool
	// CannotRetry, CannotEdit, CannotDie, CannotRevive and CannotDelete say why a button is off. They are
	// empty if the button is on.
	CannotRetry, CannotEdit, CannotDie, CannotRevive, CannotDelete string
}

func (v *visit) message() (*answer, error) {
	parts, err := v.readParts()
	if err != nil {
		return v.archivedSince(err)
	}
	d := &messageData{messageParts: parts, Seen: seenState(parts.MessageDetail), Every: 10}
	v.readRequest(d)
	if d.isBusy() {
		d.Every = 2
	} else if d.Value != nil && d.Value.Size > 1<<20 {
		d.Every = 60 // every refresh reads the whole message
	}
	d.AboutStatus = v.word("status", d.Status)
	v.describeParts(&d.messageParts)
	v.describeActions(d)
	return show("message", v.text("Message %s", d.ID), d)
}

// archivedSince leads from the former page of a message to its page in the archive, if the message was archived. Otherwise it
// returns err.
func (v *visit) archivedSince(err error) (*answer, error) {
	if !isStatus(err, http.StatusNotFound) || v.Header.Get(regionHeader) != "" {
		return nil, err
	}
	id := v.PathValue("id")
	if _, inArchive := v.api.GetArchivedMessage(v.Context(), id, nil); inArchive != nil {
		return nil, err
	}
	return goTo(archivedPath(id))
}

// isBusy tells whether the state will soon change.
func (d *messageData) isBusy() bool {
	return d.Status == client.StatusRETRYING || d.Request != nil && time.Since(d.Request.StartedAt) < 10*time.Minute
}

// download sends the bytes of a value or a key. Its headers make browsers store the bytes, and never run them.
func (v *visit) download() (*answer, error) {
	m, err := v.readMessage(v.Context())
	if err != nil {
		return nil, err
	}
	part := v.URL.Query().Get("part")
	pointed := m.Pointed
	if pointed == nil {
		pointed = &client.MessageDetail_Pointed{}
	}
	bytes := map[string]*client.Bytes{"value": m.Value, "key": m.Key, "pointed": pointed.Value, "pointed-key": pointed.Key}[part]
	if bytes == nil {
		return nil, &client.APIError{Status: http.StatusNotFound, Message: v.text("The message has no such part.")}
	}
	h := v.writer.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="`+part+`.bin"`)
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Content-Length", strconv.Itoa(len(bytes.Base64)))
	return &answer{content: append([]byte{}, bytes.Base64...)}, nil
}

// messagePath is the page of a message, archivedPath its page in the archive.
func messagePath(id string) string  { return "/messages/" + url.PathEscape(id) }
func archivedPath(id string) string { return "/archive/" + url.PathEscape(id) }

// conflict makes an error of the console, which pages show like an error of the API.
func conflict(text string) error { return &client.APIError{Status: http.StatusConflict, Message: text} }

// statusOf returns the status of an error of the API.
func statusOf(err error) int {
	if refused, ok := errors.AsType[*client.APIError](err); ok {
		return refused.Status
	}
	return http.StatusBadGateway
}

func isStatus(err error, status int) bool { return err != nil && statusOf(err) == status }
