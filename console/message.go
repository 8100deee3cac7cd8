package console

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"dlqmanager/client"
)

// messageData is the page of one message.
type messageData struct {
	*client.MessageDetail

	// Seen is the state that the forms of this page act on.
	Seen string
	// Every is how often the state is read again, in seconds.
	Every                             int
	AboutStatus, AboutEnd, AboutCheck string
	// Check is whether the consumer got past the message: yes, no or unknown.
	Check string
	// Tried is how often the consumer tried, 0 if that is unknown.
	Tried                    int64
	Fault                    faultData
	ValueView, KeyView       bytesView
	HeaderViews              []headerView
	HeadersLeft              int
	PointedValue, PointedKey bytesView
	PointedHeaders           []headerView
	// Request is the newest single retry of the message that is known, if it has not ended.
	Request      *client.SingleRetry
	AboutRequest string
	Hops         []hopData
	// CameBackAs are the messages as which this one was stored when the consumer failed again.
	CameBackAs []string
	// ChainProblem says why there are no hops.
	ChainProblem string
	IsTruncated  bool
	// Hidden are parts of the message that this user does not see. CannotReveal says why the button is off.
	Hidden       []string
	CannotReveal string
	Commands     []command
	// CanJoin is set if a retry would join the running one, or take over from one that was ended in Temporal.
	CanJoin bool
	// CannotRetry and the others say why a button is off; empty if it is on.
	CannotRetry, CannotEdit, CannotDie, CannotRevive, CannotDelete string
}

func (v *visit) message() (*answer, error) {
	id := v.PathValue("id")
	d := &messageData{}
	actors := map[string]string{}
	var chain *client.Chain
	var chainErr error
	err := v.together(func(ctx context.Context) error {
		got, err := v.api.GetMessage(ctx, id, nil)
		if err != nil {
			return err
		}
		d.MessageDetail = &got.Value
		return nil
	}, func(ctx context.Context) error {
		got, err := v.api.GetMessageChain(ctx, id, nil)
		if chainErr = err; err == nil {
			chain = &got.Value
		}
		return nil // the message says more about the cause
	}, func(ctx context.Context) error {
		if v.may(http.MethodGet, "/api/v1/audit") {
			v.readActors(ctx, id, actors)
		}
		return nil
	})
	if err != nil {
		return v.archivedSince(id, err)
	}
	v.readRequest(d, actors)
	v.describeMessage(d)
	v.describeChain(d, chain, chainErr, actors)
	return show("message", v.text("Message %s", d.ID), d)
}

// archivedSince leads from the old link of a message that is in the archive by now to its page there.
func (v *visit) archivedSince(id string, err error) (*answer, error) {
	missing, ok := errors.AsType[*client.APIError](err)
	if !ok || missing.Status != http.StatusNotFound || v.Header.Get(regionHeader) != "" {
		return nil, err
	}
	if _, inArchive := v.api.GetArchivedMessage(v.Context(), id, nil); inArchive != nil {
		return nil, err
	}
	return goTo("/archive/" + url.PathEscape(id))
}

// isBusy tells whether the state will soon be another.
func (d *messageData) isBusy() bool {
	return d.Status == client.StatusRETRYING || d.Request != nil && time.Since(d.Request.StartedAt) < 10*time.Minute
}

func (v *visit) describeMessage(d *messageData) {
	m := d.MessageDetail
	d.Seen = seenState(m)
	d.Every = 10
	if d.isBusy() {
		d.Every = 2
	} else if m.Value != nil && m.Value.Size > 1<<20 {
		d.Every = 60 // each look reads the whole message
	}
	d.AboutStatus, d.AboutEnd = v.aboutStatus(m.Status), v.aboutResolution(m.Resolution)
	d.AboutCheck = v.aboutVerified(m.Verified, m.VerifiedReason)
	if m.Verified != nil {
		d.Check = string(*m.Verified)
	}
	if m.Origin.Attempts != nil {
		d.Tried = *m.Origin.Attempts
	}
	d.Fault = v.faultOf(m)
	if v.Header.Get(regionHeader) == "" {
		v.describeRecord(d) // a region has nothing of it
	}
	v.describeActions(d)
}

// describeRecord shows what is in the message.
func (v *visit) describeRecord(d *messageData) {
	m := d.MessageDetail
	wanted := v.URL.Query().Get("view")
	var decoded json.RawMessage
	if hasSchema(m) {
		decoded = m.Payload
	}
	d.ValueView = viewBytes("value", m.Value, decoded, wanted, maxShownText)
	var decodedKey json.RawMessage
	if m.DecodedKey != nil {
		decodedKey = m.DecodedKey.Payload
	}
	d.KeyView = viewBytes("key", m.Key, decodedKey, "", maxShownKey)
	d.HeaderViews, d.HeadersLeft = viewHeaders(m.Headers)
	if p := m.Pointed; p != nil {
		d.PointedValue = viewBytes("pointed", p.Value, nil, wanted, maxShownText)
		d.PointedKey = viewBytes("pointed-key", p.Key, nil, "", maxShownKey)
		d.PointedHeaders, _ = viewHeaders(p.Headers)
	}
	d.Commands = v.commandsOf(m)
}

// download sends the bytes of a value or a key. A browser stores them, and runs nothing of them.
func (v *visit) download() (*answer, error) {
	got, err := v.api.GetMessage(v.Context(), v.PathValue("id"), nil)
	if err != nil {
		return nil, err
	}
	m, part := &got.Value, v.URL.Query().Get("part")
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

// messagePath is the page of a message.
func messagePath(id string) string { return "/messages/" + url.PathEscape(id) }

// conflict is an error of the console that a page shows as one of the API.
func conflict(text string) error { return &client.APIError{Status: http.StatusConflict, Message: text} }

// statusOf returns the status of an error of the API.
func statusOf(err error) int {
	if refused, ok := errors.AsType[*client.APIError](err); ok {
		return refused.Status
	}
	return http.StatusBadGateway
}
