package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

type detailView struct {
	messageFields
	DLQTopic string      `json:"dlq_topic"`
	Origin   originView  `json:"origin"`
	Source   *sourceView `json:"source"`
	recordView
	ErrorClass    *string       `json:"error_class"`
	StackTrace    *string       `json:"stack_trace"`
	Attempts      []attemptView `json:"attempts"`
	Workflow      *workflowView `json:"workflow"`
	Operation     *dlq.ID       `json:"operation_id"`
	PreviousID    *dlq.ID       `json:"previous_id"`
	Resolution    *string       `json:"resolution"`
	Target        *targetView   `json:"target"`
	CauseClass    *string       `json:"cause_class"`
	TraceID       *string       `json:"trace_id"`
	TraceURL      string        `json:"trace_url,omitempty"`
	CorrelationID *string       `json:"correlation_id"`
	Suspicion     *string       `json:"suspicion"`
	Pointed       *pointedView  `json:"pointed"`
	GroupID       *dlq.ID       `json:"group_id"`
	EditedFrom    *dlq.ID       `json:"edited_from"`
	ReplacedBy    *dlq.ID       `json:"replaced_by"`
	// OwnLines is absent in an export, and if no frame of the stack trace has a known form.
	OwnLines []int `json:"own_lines,omitzero"`
	// GroupedBy is absent for a message without a group.
	GroupedBy    *groupedByView `json:"grouped_by,omitempty"`
	HeadersError *string        `json:"headers_error,omitempty"`
	// UnmaskedUntil is absent unless the sender has revealed the message.
	UnmaskedUntil *timestamp `json:"unmasked_until,omitempty"`
	decodedFields
	stateFields
}

// pointedView is the record that a pointer names, or the reason why the record could not be read.
type pointedView struct {
	recordView
	Error *string `json:"error"`
}

type recordView struct {
	Key             *bytesView   `json:"key"`
	Value           *bytesView   `json:"value"`
	Headers         []headerView `json:"headers"`
	RecordTimestamp *timestamp   `json:"record_timestamp"`
}

func viewRecord(r *dlq.Record) recordView {
	return recordView{viewBytes(r.Key), viewBytes(r.Value), views(r.Headers, viewHeader), optionalTime(&r.Timestamp)}
}

type originView struct {
	Topic         string     `json:"topic"`
	Partition     *int32     `json:"partition"`
	Offset        *int64     `json:"offset"`
	Family        string     `json:"family"`
	Timestamp     *timestamp `json:"timestamp"`
	ConsumerGroup *string    `json:"consumer_group"`
	Attempts      *int       `json:"attempts"`
	URL           string     `json:"url,omitempty"`
}

func viewOrigin(f *dlq.Failure) originView {
	return originView{Topic: f.Origin.Topic, Partition: f.Origin.Partition, Offset: f.Origin.Offset, Family: f.Origin.Family,
		Timestamp: optionalTime(&f.Origin.Timestamp), ConsumerGroup: optional(f.Origin.ConsumerGroup), Attempts: optional(max(f.Attempts, 0))}
}

type targetView struct {
	Topic     string `json:"topic"`
	Partition *int32 `json:"partition"`
	Offset    *int64 `json:"offset"`
	URL       string `json:"url,omitempty"`
}

// viewTarget is null for a message that was not delivered, or whose target is unknown. If only the partition and the offset are
// known, the message is in its original topic.
func viewTarget(m *dlq.Message, verdict dlq.Verdict) *targetView {
	if m.Ended() != dlq.ResolutionDelivered || verdict.Target == "" && (m.TargetPartition == nil || m.TargetOffset == nil) {
		return nil
	}
	return &targetView{Topic: cmp.Or(verdict.Target, m.OriginalTopic), Partition: m.TargetPartition, Offset: m.TargetOffset}
}

type sourceView struct {
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	URL       string `json:"url,omitempty"`
}

// viewSource is null for a message that was not read from Kafka.
func viewSource(s dlq.Source) *sourceView {
	if s.IsZero() {
		return nil
	}
	return &sourceView{Partition: s.Partition, Offset: s.Offset}
}

// headerView shows a header's value as base64. A value that is valid UTF-8 is also shown as text.
type headerView struct {
	Key   string  `json:"key"`
	Value []byte  `json:"value"` // null for a null value in Kafka
	Text  *string `json:"text"`
	// RemovedOnRetry is absent for the headers that are sent back.
	RemovedOnRetry bool `json:"removed_on_retry,omitempty"`
}

type attemptView struct {
	Number    int           `json:"number"`
	StartedAt timestamp     `json:"started_at"`
	EndedAt   timestamp     `json:"ended_at"`
	Result    dlq.Result    `json:"result"`
	Category  *string       `json:"category"`
	Error     *string       `json:"error"`
	Workflow  *workflowView `json:"workflow"`
	Operation *dlq.ID       `json:"operation_id"`
}

// message shows a message of the archive, or a message that is not archived.
func (s *Server) message(isArchived bool) idHandler {
	return func(ctx context.Context, c *fiber.Ctx, _ *query, id dlq.ID) error {
		if err := s.reserveDetail(ctx, c, id, isArchived); err != nil {
			return err
		}
		d, err := s.guard.show(ctx, id, isArchived)
		if err != nil {
			return err
		}
		return s.replyMessage(ctx, c, &d, isArchived)
	}
}

// unmaskMessage reveals a message, also an archived one, and answers with it.
func (s *Server) unmaskMessage(ctx context.Context, c *fiber.Ctx, _ *query, id dlq.ID) error {
	b := readBody(c, "reason")
	b.require("reason")
	if reason := b.reason(c); strings.TrimSpace(reason) == "" && b.err() == nil {
		b.reject("reason", "must not be empty: it is for those who read the audit")
	}
	if err := b.err(); err != nil {
		return err
	}
	_, err := s.guard.Weigh(ctx, id, false)
	isArchived := errors.Is(err, dlq.ErrNotFound)
	if err := s.reserveDetail(ctx, c, id, isArchived); err != nil {
		return err
	}
	d, err := s.guard.Unmask(ctx, auditOf(c), id, isArchived)
	if err != nil {
		return err
	}
	return s.replyMessage(ctx, c, &d, isArchived)
}

func (s *Server) replyMessage(ctx context.Context, c *fiber.Ctx, d *shownMessage, isArchived bool) error {
	known, err := s.factsOf(ctx, dlq.Hop{Message: d.Message, Attempts: d.Attempts})
	if err != nil {
		return err
	}
	if err := s.reserve(ctx, c, peakOf(s.addedTo(d))); err != nil {
		return err
	}
	var pointed *pointedView
	if d.isPointer {
		pointed = s.viewPointed(ctx, d)
	}
	if d.mask == nil {
		d.key = decode(ctx, s.options.Decoder, &d.Detail)
	}
	view := s.viewDetail(&d.Detail, known, isArchived)
	view.Pointed, view.DecodedKey, view.UnmaskedUntil = pointed, d.key, optionalTime(&d.unmaskedUntil)
	view.OwnLines = d.Failure.OwnLines()
	for i, header := range d.Record.Headers {
		view.Headers[i].RemovedOnRetry = d.isPointer || d.comesOff(header)
	}
	s.linkPlaces(&view, d)
	if err := s.explainGroup(ctx, &view, d.GroupID); err != nil {
		return err
	}
	return reply(c, http.StatusOK, view)
}

// linkPlaces links to the trace and to the records in Kafka. Lines of an export have no links.
func (s *Server) linkPlaces(view *detailView, d *shownMessage) {
	view.TraceURL = s.options.TraceLink.URL(d.Failure.TraceID)
	view.Origin.URL = s.options.RecordLink.URL(view.Origin.Topic, view.Origin.Partition, view.Origin.Offset)
	s.linkSource(view.Source, d.DLQTopic)
	if target := view.Target; target != nil {
		target.URL = s.options.RecordLink.URL(target.Topic, target.Partition, target.Offset)
	}
}

func (s *Server) linkSource(source *sourceView, topic string) {
	if source != nil {
		source.URL = s.options.RecordLink.URL(topic, &source.Partition, &source.Offset)
	}
}

func (s *Server) viewDetail(d *dlq.Detail, known facts, isArchived bool) detailView {
	view := detailView{
		messageFields: fieldsOf(&d.Message), DLQTopic: d.DLQTopic,
		Origin: viewOrigin(&d.Failure), Source: viewSource(d.Source),
		recordView: viewRecord(&d.Record),
		ErrorClass: optional(d.ErrorClass), StackTrace: optional(d.Failure.StackTrace),
		Workflow: s.viewWorkflow(d.Owner), Operation: optional(known.operations[d.Owner.Token]),
		PreviousID: optional(d.PreviousID),
		Resolution: optional(string(d.Ended())), Target: viewTarget(&d.Message, known.verdicts[d.ID]), CauseClass: optional(d.Failure.CauseClass),
		TraceID: optional(d.Failure.TraceID), CorrelationID: optional(d.Failure.CorrelationID), Suspicion: optional(d.Failure.Suspicion),
		GroupID: optional(d.GroupID), EditedFrom: optional(d.Edits.From), ReplacedBy: optional(d.Edits.By),
		stateFields:   s.viewState(&d.Message, known.verdicts[d.ID], isArchived),
		decodedFields: decodedFields{Schema: viewSchema(d.Schema), DecodeError: optional(d.DecodeError)},
	}
	if d.Unreadable != nil {
		view.HeadersError = new(d.Unreadable.Error())
	}
	view.Attempts = views(d.Attempts, func(a *dlq.Attempt) attemptView {
		return attemptView{
			Number: a.Number, StartedAt: timestamp(a.StartedAt), EndedAt: timestamp(a.EndedAt), Result: a.Result,
			Category: optional(string(a.Category)), Error: optional(a.Error), Workflow: s.viewWorkflow(a.Owner),
			Operation: optional(known.operations[a.Owner.Token]),
		}
	})
	return view
}

func (s *Server) reserveDetail(ctx context.Context, c *fiber.Ctx, id dlq.ID, isArchived bool) error {
	w, err := s.guard.Weigh(ctx, id, isArchived)
	if err != nil {
		return err
	}
	peak := peakOfDetail(&w)
	if s.options.Masking != nil { // the message is in memory twice: as it is stored and as it is shown
		peak = 2*peak + maskRoom
	}
	return s.reserve(ctx, c, peak)
}

// addedTo is how many bytes of JSON an answer may have in addition to the stored message.
func (s *Server) addedTo(d *shownMessage) (added int64) {
	if d.isPointer {
		added += answerPointed
	}
	parts := [][]byte{d.Record.Key}
	if len(d.Payload) == 0 {
		parts = append(parts, d.Record.Value)
	}
	for _, part := range parts {
		if _, ok := dlq.SchemaIDOf(part); ok && s.options.Decoder != nil {
			added += answerDecoded
		}
	}
	return added
}

// Pointers reads the records that pointers name.
type Pointers interface {
	// Fetch returns the record at the origin of a dead letter. The dead letter was written at the time written. The error wraps
	// dlq.ErrGone when Kafka no longer has the record.
	Fetch(ctx context.Context, origin dlq.Origin, written time.Time) (dlq.Record, error)
}

func (s *Server) viewPointed(ctx context.Context, d *shownMessage) *pointedView {
	failed := func(reason string) *pointedView { return &pointedView{viewRecord(&dlq.Record{}), &reason} }
	if s.options.Pointers == nil {
		return failed("Kafka is not configured")
	}
	// Anybody who may write to the dead-letter topic can name any record of any topic.
	if accessOf(ctx).withinRoute() != "" && !s.options.Topics.MaySend(d.DLQTopic, d.Failure.Origin.Topic, false) {
		return failed(foreignPointer + " shows it")
	}
	record, err := s.options.Pointers.Fetch(ctx, d.Failure.Origin, d.Record.Timestamp)
	switch {
	case errors.Is(err, dlq.ErrGone):
		return failed(err.Error())
	case err != nil: // the error may name hosts
		s.options.Logger.Warn("cannot read the record that a message points to", zap.Stringer("message_id", d.ID), zap.Error(err))
		return failed("the record cannot be read now; try again later")
	}
	record = s.guard.hideRecord(ctx, d, record)
	return &pointedView{viewRecord(&record), nil}
}

func viewHeader(header *dlq.Header) headerView {
	view := headerView{Key: header.Key, Value: header.Value}
	if header.Value != nil && utf8.Valid(header.Value) {
		view.Text = new(string(header.Value))
	}
	return view
}

type deletedView struct {
	Success bool   `json:"success"`
	Message string `json:"message"`
}

// deleteMessage takes the reason from a query parameter, since not every client can send a body with DELETE.
func (s *Server) deleteMessage(ctx context.Context, c *fiber.Ctx, q *query, id dlq.ID) error {
	reason, _ := q.one("reason")
	if err := q.err(); err != nil {
		return err
	}
	auditOf(c).Reason = reason
	if err := s.guard.Delete(ctx, auditOf(c), id); err != nil {
		return err
	}
	return reply(c, http.StatusOK, deletedView{Success: true, Message: fmt.Sprintf("message %s deleted", id)})
}

type markedView struct {
	ID         dlq.ID     `json:"id"`
	Status     dlq.Status `json:"status"`
	Message    string     `json:"message"`
	RetryCount int        `json:"retry_count"`
	MaxRetries int        `json:"max_retries"`
}

// marks returns a handler that changes a message. The body of the request has the reason. done names the change in answers and
// errors.
func marks(done string, change func(context.Context, *dlq.Operation, dlq.ID) (dlq.Message, error)) idHandler {
	return func(ctx context.Context, c *fiber.Ctx, _ *query, id dlq.ID) error {
		if err := readReason(c); err != nil {
			return err
		}
		m, err := change(ctx, auditOf(c), id)
		if refused, ok := errors.AsType[*dlq.NotRetryableError](err); ok {
			return conflict("message cannot be "+done+": "+cmp.Or(refused.Reason, "status="+string(refused.Status)), err)
		}
		if err != nil {
			return err
		}
		status, text := http.StatusOK, fmt.Sprintf("message %s %s", id, done)
		if m.ID != id { // an archived message was restored as a new message
			status, text = http.StatusCreated, fmt.Sprintf("archived message %s %s as %s", id, done, m.ID)
			c.Location("/api/v1/dlq/messages/" + m.ID.String())
		}
		return reply(c, status, markedView{m.ID, m.Status, text, m.RetryCount, m.MaxRetries})
	}
}
