package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"dlqmanager/dlq"
	"dlqmanager/dlq/masking"
)

// The guard hides the parts of messages that the masking rules name, in everything that it returns. Handlers read messages only
// through the guard, so they show no hidden part by mistake. The method stored returns a message with all its parts. It is for
// edits, and for a sender who has revealed the message.

// unmaskedFor is how long a message stays in the clear for a sender who has revealed it.
const unmaskedFor = 10 * time.Minute

// maxRead is the size in bytes of the largest message that a list reads to find which hidden parts its error quotes. The error
// of a larger message is hidden as a whole.
const maxRead = 1 << 20

// maxDecoded is the size in bytes of the largest value that a list decodes. Decoding may need a hundred times as much memory.
const maxDecoded = 64 << 10

// maskRoom is the memory for hiding the parts of one message.
const maskRoom = 8 << 20

// shownMessage is a message as the sender sees it.
type shownMessage struct {
	dlq.Detail
	// mask tells which parts are hidden; nil if no rule applies, or if the sender has revealed the message until unmaskedUntil.
	mask          *dlq.Mask
	key           *decodedKeyView // set by hide if there is a mask, else by replyMessage; nil without a schema
	isPointer     bool            // whether the message was a pointer before parts were hidden
	unmaskedUntil time.Time
	comesOff      func(dlq.Header) bool // the headers that are not sent back
}

// whole is a message of which nothing is hidden.
func (g guard) whole(d *dlq.Detail, unmaskedUntil time.Time) shownMessage {
	return shownMessage{Detail: *d, isPointer: d.IsPointer(), unmaskedUntil: unmaskedUntil, comesOff: g.comesOff(d.Record.Headers)}
}

// show returns a message without the parts that are hidden from the sender.
func (g guard) show(ctx context.Context, id dlq.ID, isArchived bool) (shownMessage, error) {
	d, err := g.stored(ctx, id, isArchived)
	if err != nil {
		return shownMessage{}, err
	}
	mask := g.masking.For(d.DLQTopic, d.OriginalTopic)
	if mask == nil {
		return g.whole(&d, time.Time{}), nil
	}
	until, err := g.unmaskedUntil(ctx, &d.Message)
	if err != nil {
		return shownMessage{}, err
	}
	if !until.IsZero() {
		return g.whole(&d, until), nil
	}
	return g.hide(ctx, d, mask), nil
}

// hide decodes a message with the Schema Registry before it hides parts, since decoded values may have hidden parts too.
func (g guard) hide(ctx context.Context, d dlq.Detail, mask *dlq.Mask) shownMessage {
	s := shownMessage{mask: mask, isPointer: d.IsPointer(), key: decode(ctx, g.decoder, &d), comesOff: g.comesOff(d.Record.Headers)}
	var decodedKey []byte
	if s.key != nil {
		decodedKey = s.key.Payload
	}
	hidden := g.withTags(ctx, mask, &d.Record).Show(&d, decodedKey)
	s.Detail = hidden.Detail
	if s.key != nil {
		s.key.Payload = hidden.DecodedKey
		if s.key.Error != nil {
			s.key.Error = optional(hidden.Text(*s.key.Error))
		}
	}
	return s
}

// withTags adds to a mask the fields that have a masked tag in the schemas of a record.
func (g guard) withTags(ctx context.Context, mask *dlq.Mask, r *dlq.Record) *dlq.Mask {
	return mask.WithTags(r, func(data []byte, tags []string) ([]masking.Path, error) {
		if g.decoder == nil {
			return nil, errors.New("there is no Schema Registry")
		}
		return g.decoder.Tagged(ctx, data, tags)
	})
}

// hideListed hides parts of a message in a list. It decodes value and key only to find the hidden parts that other fields
// quote. After ctx has ended, it decodes nothing.
func (g guard) hideListed(ctx context.Context, mask *dlq.Mask, d *dlq.Detail) *dlq.Shown {
	decoded := *d
	var key json.RawMessage
	if ctx.Err() == nil && len(d.Record.Value) <= maxDecoded {
		if view := decode(ctx, g.decoder, &decoded); view != nil {
			key = view.Payload
		}
	}
	s := g.withTags(ctx, mask, &d.Record).Show(&decoded, key)
	if s.Schema, s.DecodeError = d.Schema, s.Text(d.DecodeError); len(d.Payload) == 0 {
		s.Payload = nil
	}
	return s
}

// hideRecord hides parts of the record that a pointer names.
func (g guard) hideRecord(ctx context.Context, s *shownMessage, record dlq.Record) dlq.Record {
	if s.mask == nil {
		return record
	}
	hidden := g.hideListed(ctx, s.mask, &dlq.Detail{Record: record})
	for _, part := range hidden.Masked {
		if !slices.Contains(s.Masked, part) {
			s.Masked = append(s.Masked, part)
		}
	}
	return hidden.Record
}

// unmaskedUntil reads from the audit how long the sender may see a message that the sender has revealed. The time is zero if
// the sender has not revealed it.
func (g guard) unmaskedUntil(ctx context.Context, m *dlq.Message) (time.Time, error) {
	a := accessOf(ctx)
	if !g.hasDatabase() || !a.MayOn(dlq.PermMessageUnmask, m.DLQTopic) {
		return time.Time{}, nil
	}
	now, err := g.database.Now(ctx)
	if err != nil {
		return time.Time{}, err
	}
	page, err := g.database.Operations(ctx, dlq.OperationQuery{
		Subject: a.Subject, Action: dlq.PermMessageUnmask, TargetID: m.ID, Outcome: dlq.OperationDone,
		From: now.Add(-unmaskedFor), PageSize: maxPageSize,
	})
	for i := range page.Entries { // the newest first
		if o := &page.Entries[i]; o.Method == a.Method {
			return o.At.Add(unmaskedFor), err
		}
	}
	return time.Time{}, err
}

// Unmask records that the sender reveals a message, and returns the message as it is stored.
func (g guard) Unmask(ctx context.Context, asked *dlq.Operation, id dlq.ID, isArchived bool) (shownMessage, error) {
	d, err := g.stored(ctx, id, isArchived)
	if err != nil {
		return shownMessage{}, err
	}
	var parts []string
	if mask := g.masking.For(d.DLQTopic, d.OriginalTopic); mask != nil {
		parts = g.hide(ctx, d, mask).Masked
	}
	asked.TargetID, asked.Topic, asked.Outcome = id, d.DLQTopic, dlq.OperationDone
	describe(asked, map[string]any{"command": "unmask", "parts": parts})
	if err := g.database.RecordOperation(ctx, *asked); err != nil {
		return shownMessage{}, err
	}
	until, err := g.unmaskedUntil(ctx, &d.Message)
	return g.whole(&d, until), err
}

// editable returns a message for an edit, and refuses a message with parts that are hidden from the sender. Otherwise an edit
// would send the asterisks of the form.
func (g guard) editable(ctx context.Context, id dlq.ID) (dlq.Detail, error) {
	s, err := g.show(ctx, id, false)
	if err != nil || s.Masked == nil {
		if err == nil && s.mask != nil { // nothing is hidden, but s has the decoded payload
			return g.stored(ctx, id, false)
		}
		return s.Detail, err
	}
	remedy := "reveal it first: POST /api/v1/dlq/messages/" + id.String() + "/unmask with a reason"
	if !accessOf(ctx).MayOn(dlq.PermMessageUnmask, s.DLQTopic) {
		remedy = "only somebody with the permission " + string(dlq.PermMessageUnmask) + " can edit it"
	}
	return dlq.Detail{}, &apiError{status: http.StatusForbidden, code: codeMasked,
		message: "parts of the message are hidden from you (" + strings.Join(s.Masked, ", ") + "), so an edit could send asterisks; " + remedy}
}

// textOf is a text about a message, such as the error of its retry, without hidden parts of the message.
func (g guard) textOf(ctx context.Context, m *dlq.Message, text string) string {
	mask := g.masking.For(m.DLQTopic, m.OriginalTopic)
	if mask == nil || text == "" {
		return text
	}
	shown := mask.Unread().Text(text)
	_ = g.read(ctx, []unread{{id: m.ID, mask: mask, show: func(s *dlq.Shown) { shown = s.Text(text) }}}) // hidden after an error
	return shown
}

// checkFilter refuses a filter that compares hidden parts, since the sender could find them by trying many values.
func (g guard) checkFilter(ctx context.Context, f *dlq.Filter, isArchived bool) error {
	if len(g.masking.All().Filters(f)) == 0 {
		return nil
	}
	a := accessOf(ctx)
	within := a.Within(dlq.PermMessageUnmask)
	switch {
	case !a.May(dlq.PermMessageUnmask):
	case within == "", g.topics.IsDeadLetter(f.Topic) && a.MayOn(dlq.PermMessageUnmask, f.Topic), within == a.withinRoute():
		return nil
	}
	mask, err := g.maskOfTopic(ctx, f.Topic, isArchived)
	if err != nil {
		return err
	}
	fields := mask.Filters(f)
	if len(fields) == 0 {
		return nil
	}
	details := views(fields, func(name *string) detail {
		return detail{*name, "compares what is hidden of messages of this topic, or errors that quote it"}
	})
	return &apiError{status: http.StatusForbidden, code: codeForbidden, details: details, message: "a filter by " + strings.Join(fields, ", ") +
		" needs the permission " + string(dlq.PermMessageUnmask) + " on the topics of its messages, since parts of them are hidden; GET /api/v1/me lists yours"}
}

// maskOfTopic is the mask of all messages of a topic. In the archive it has all rules, since the pairs of dead-letter topic and
// original topic are not known there.
func (g guard) maskOfTopic(ctx context.Context, topic string, isArchived bool) (*dlq.Mask, error) {
	if isArchived || !g.hasDatabase() {
		return g.masking.All(), nil
	}
	topics, err := g.database.TopicsBeside(ctx, topic)
	return g.masking.For(append(topics, topic)...), err
}

// shownFilter is a filter without the values that it compares with hidden parts. Everybody sees the same filter.
func (g guard) shownFilter(f *dlq.Filter) dlq.Filter {
	if g.masking == nil {
		return *f
	}
	return g.masking.All().WithoutHidden(f)
}

// shownReason is why a job stopped or paused. It leaves out the answer of an endpoint, which may quote any message of the job.
func (g guard) shownReason(reason string) string {
	before, rest, found := strings.Cut(reason, " answered ")
	if g.masking == nil || !found {
		return reason
	}
	status, _, isQuoted := strings.Cut(rest, ": ")
	if !isQuoted {
		return reason
	}
	return before + " answered " + status + ": ***"
}

// describeGone returns nil for dlq.ErrNotFound: it is no error that the group was deleted meanwhile.
func describeGone(err error) error {
	if errors.Is(err, dlq.ErrNotFound) {
		return nil
	}
	return err
}
