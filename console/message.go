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
	// MaskedPaths are parts of the message that the API hides from this user.
	MaskedPaths []string
	Commands    []command
	// CanJoin is set if a retry would join the running one, or take over from one that was ended in Temporal.
	CanJoin bool
	// CannotRetry and the others say why a button is off; empty if it is on.
	CannotRetry, CannotEdit, CannotDie, CannotRevive, CannotDelete string
}

// hopData is a message of the chain.
type hopData struct {
	client.Hop

	IsThis               bool
	AboutEnd, AboutCheck string
	Tries                []tryData
}

// tryData is a retry that has ended.
type tryData struct {
	client.Hop_Attempts

	// Actor is who asked for it, if that is known.
	Actor         string
	AboutCategory string
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
		d.MaskedPaths = maskedPaths(got.Body)
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
		return nil, err
	}
	v.readRequest(d, actors)
	v.describeMessage(d)
	v.describeChain(d, chain, chainErr, actors)
	return show("message", v.text("Message %s", d.ID), d)
}

// maskedPaths reads which parts of a message the API hides.
func maskedPaths(answer []byte) []string {
	var hidden struct {
		Paths []string `json:"masked_paths"`
	}
	_ = json.Unmarshal(answer, &hidden) // the client has decoded the same bytes
	return hidden.Paths
}

// readActors finds who asked for the newest changes of a message. Without them the page shows less.
func (v *visit) readActors(ctx context.Context, id string, actors map[string]string) {
	operations, err := v.api.ListOperations(ctx, &client.ListOperationsParams{TargetID: &id, PageSize: new(int64(100))})
	if err != nil {
		return
	}
	for _, operation := range operations.Value.Operations {
		actors[operation.ID] = operation.Subject
	}
}

// readRequest finds the newest single retry of the message among the newest of its topic. So a retry that no worker has taken
// yet shows too, which the message itself does not know.
func (v *visit) readRequest(d *messageData, actors map[string]string) {
	if d.Status != client.StatusPENDING && d.Status != client.StatusRETRYING {
		return
	}
	retries, err := v.api.ListSingleRetries(v.Context(), &client.ListSingleRetriesParams{Topic: &d.DlqTopic, PageSize: new(int64(50))})
	if err != nil {
		return
	}
	for i, retry := range retries.Value.Retries {
		if retry.MessageID != d.ID {
			continue
		}
		actors[retry.OperationID] = retry.Actor
		if d.Request == nil && isUnderway(retry.State) && !isOutdated(retry.StartedAt, d.LastRetryAt) {
			d.Request = &retries.Value.Retries[i]
			d.AboutRequest = v.aboutRetryState(retry.State)
		}
	}
}

func isUnderway(state client.SingleRetryState) bool {
	return state == client.SingleRetryStateUNCLAIMED || state == client.SingleRetryStateRUNNING
}

// isOutdated tells whether a retry was asked for before the last one that began. An unclaimed one will not come then.
func isOutdated(asked time.Time, lastRetry *time.Time) bool {
	return lastRetry != nil && asked.Before(*lastRetry)
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

func (v *visit) describeChain(d *messageData, chain *client.Chain, err error, actors map[string]string) {
	if err != nil {
		d.ChainProblem = v.explain(err)
		return
	}
	d.IsTruncated = chain.Truncated
	for _, hop := range chain.Hops {
		h := hopData{
			Hop: hop, IsThis: hop.ID == d.ID,
			AboutEnd: v.aboutResolution(hop.Resolution), AboutCheck: v.aboutVerified(hop.Verified, hop.VerifiedReason),
		}
		for _, try := range hop.Attempts {
			t := tryData{Hop_Attempts: try, AboutCategory: v.aboutCategory(try.Category)}
			if try.OperationID != nil {
				t.Actor = actors[*try.OperationID]
			}
			h.Tries = append(h.Tries, t)
		}
		if valueOf(hop.PreviousID) == d.ID && hop.EditedFrom == nil {
			d.CameBackAs = append(d.CameBackAs, hop.ID)
		}
		d.Hops = append(d.Hops, h)
	}
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
