package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"dlqmanager/client"
)

// messageParts has the data of both pages of a message: its page, and its page in the archive.
type messageParts struct {
	*client.MessageDetail

	// Here is the path of the page.
	Here string
	// AboutStatus explains the status; empty in the archive.
	AboutStatus string
	// Tried is how often the consumer tried to process the record; 0 if unknown.
	Tried                    int64
	Fault                    failure
	ValueView, KeyView       bytesView
	HeaderViews              []headerView
	HeadersLeft              int
	PointedValue, PointedKey bytesView
	PointedHeaders           []headerView
	// CannotReveal says why the button that shows hidden parts is off.
	CannotReveal string
	// SameTrace and SameCorrelation are the lists of the messages with the same trace id, and with the same correlation id.
	SameTrace, SameCorrelation string
	Hops                       []hopData
	// CameBackAs are the messages that were stored when this message failed again.
	CameBackAs []hopData
	// IsRestored is set if the message was restored from the archive.
	IsRestored bool
	// RestoredAs is the page of the message that an archived message was restored as; empty if it was not restored.
	RestoredAs string
	// ChainProblem says why there are no hops.
	ChainProblem string
	IsTruncated  bool
	Commands     []command

	chain    *client.Chain
	chainErr error
	// actors are the people who asked for the newest changes, by the ids of the operations.
	actors map[string]string
}

// isInArchive tells whether the address is below the archive.
func (v *visit) isInArchive() bool { return strings.HasPrefix(v.URL.Path, "/archive/") }

// readMessage reads the message of the address.
func (v *visit) readMessage(ctx context.Context) (*client.MessageDetail, error) {
	var got *client.Answer[client.MessageDetail]
	var err error
	if id := v.PathValue("id"); v.isInArchive() {
		got, err = v.api.GetArchivedMessage(ctx, id, nil)
	} else {
		got, err = v.api.GetMessage(ctx, id, nil)
	}
	if err != nil {
		return nil, err
	}
	return &got.Value, nil
}

// messageHere is the page of the message of the address.
func (v *visit) messageHere() string {
	if v.isInArchive() {
		return archivedPath(v.PathValue("id"))
	}
	return messagePath(v.PathValue("id"))
}

// readParts reads the message of the address, its chain, and who asked for its changes.
func (v *visit) readParts() (messageParts, error) {
	id := v.PathValue("id")
	p := messageParts{Here: v.messageHere(), actors: map[string]string{}}
	err := v.together(func(ctx context.Context) (err error) {
		p.MessageDetail, err = v.readMessage(ctx)
		return err
	}, func(ctx context.Context) error {
		got, err := v.api.GetMessageChain(ctx, id, nil)
		if p.chainErr = err; err == nil {
			p.chain = &got.Value
		}
		return nil // the page shows the message without its chain, or the error of the message
	}, func(ctx context.Context) error {
		if v.may(http.MethodGet, "/api/v1/audit") {
			v.readActors(ctx, id, p.actors)
		}
		return nil
	})
	return p, err
}

func (v *visit) describeParts(p *messageParts) {
	m := p.MessageDetail
	p.Tried, p.Fault = valueOf(m.Origin.Attempts), failureOf(m)
	isDelivered := func(a client.MessageDetail_Attempts) bool {
		return a.Result == client.MessageDetailAttemptsResultDelivered
	}
	if n := len(m.Attempts); m.Status == client.StatusRESOLVED || n > 0 && isDelivered(m.Attempts[n-1]) {
		p.Fault.Last = nil // a later retry was delivered
	}
	p.IsRestored = isRestored(m.ID, m.PreviousID, m.EditedFrom, m.Source)
	v.describeChain(p)
	if v.Header.Get(regionHeader) == "" {
		v.describeRecord(p) // no region shows the record
	}
}

// describeRecord prepares the key, the value and the headers of the message.
func (v *visit) describeRecord(p *messageParts) {
	m := p.MessageDetail
	wanted := v.URL.Query().Get("view")
	var decoded json.RawMessage
	if hasSchema(m) {
		decoded = m.Payload
	}
	p.ValueView = viewBytes("value", m.Value, decoded, wanted, maxShownText)
	var decodedKey json.RawMessage
	if m.DecodedKey != nil {
		decodedKey = m.DecodedKey.Payload
	}
	p.KeyView = viewBytes("key", m.Key, decodedKey, "", maxShownKey)
	p.HeaderViews, p.HeadersLeft = viewHeaders(m.Headers)
	if pointed := m.Pointed; pointed != nil {
		p.PointedValue = viewBytes("pointed", pointed.Value, nil, wanted, maxShownText)
		p.PointedKey = viewBytes("pointed-key", pointed.Key, nil, "", maxShownKey)
		p.PointedHeaders, _ = viewHeaders(pointed.Headers)
	}
	p.CannotReveal = v.whyNotAllowed("unmask")
	kind := "retry"
	if v.isInArchive() {
		kind = "restore"
	}
	p.SameTrace = listOf(url.Values{"trace_id": {valueOf(m.TraceID)}}, kind, m.DlqTopic)
	p.SameCorrelation = listOf(url.Values{"correlation_id": {valueOf(m.CorrelationID)}}, kind, m.DlqTopic)
	p.Commands = v.commandsOf(m)
}
