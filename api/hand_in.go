package api

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

// Intake makes a dlq.Arrival of each dead letter that does not come from Kafka.
type Intake interface {
	Arrivals(ctx context.Context, dlqTopic string, letters []dlq.Letter) []dlq.Arrival
}

// Limits of a letter. Its other parts are limited by the body limit.
const (
	maxStackTrace     = 1 << 20
	maxErrorText      = 64 << 10
	maxIdempotencyKey = 255
)

var letterFields = append([]string{"error", "origin", "attempts"}, editFields...)

// Headers of a request whose body is the value of one record. A message that is sent to an HTTP endpoint has the same headers,
// so the endpoint can hand the message in again.
const (
	headerKey           = "Dlq-Key"
	headerBinaryKey     = "Dlq-Binary-Key"
	headerPrefix        = "Dlq-Header-"
	headerBinaryPrefix  = "Dlq-Binary-Header-"
	headerOriginTopic   = "Dlq-Original-Topic"
	headerConsumerGroup = "Dlq-Consumer-Group"
	headerErrorText     = "Dlq-Error"
	headerErrorClass    = "Dlq-Error-Class"
)

// keptHeaders are the headers of such a request that become headers of the record, under their own names. All other headers
// describe the request.
var keptHeaders = []string{"content-type", "traceparent", "tracestate", "dlq-message-id", "dlq-retry-count"}

// handedInView names a stored message.
type handedInView struct {
	ID dlq.ID `json:"id"`
}

// handIn stores dead letters of services that do not use Kafka.
func (s *Server) handIn(ctx context.Context, c *fiber.Ctx, _ *query, topic string) error {
	if !s.options.Topics.IsDeadLetter(topic) {
		return invalid(topic+" is no dead-letter topic: its name must match kafka.dlq_topic_pattern",
			detail{Field: "topic", Message: "must match kafka.dlq_topic_pattern, such as orders.dlq"})
	}
	key, err := s.idempotencyKey(c, topic)
	if err != nil {
		return err
	}
	letters, err := readLetters(c)
	if err != nil {
		return err
	}
	if s.options.Intake == nil {
		return unavailable("this server takes no dead letters", errors.New("no intake"))
	}
	arrivals := s.options.Intake.Arrivals(ctx, topic, letters)
	ids, repeated, err := s.guard.HandIn(ctx, auditOf(c), arrivals, key)
	if errors.Is(err, dlq.ErrKeyReused) {
		return conflict(err.Error()+"; use a new key for new messages", err)
	}
	if err != nil {
		return err
	}
	view := map[string][]handedInView{"messages": views(ids, func(id *dlq.ID) handedInView { return handedInView{*id} })} // in order
	if len(ids) == 1 {
		c.Location("/api/v1/dlq/messages/" + ids[0].String())
	}
	if repeated {
		c.Set("Idempotent-Replayed", "true")
		return reply(c, http.StatusOK, view)
	}
	return reply(c, http.StatusCreated, view)
}

// idempotencyKey is nil if the request has no such header. A key belongs to its sender and topic.
func (s *Server) idempotencyKey(c *fiber.Ctx, topic string) (*dlq.IdempotencyKey, error) {
	key := c.Get("Idempotency-Key")
	if key == "" {
		return nil, nil //nolint:nilnil // no key
	}
	if len(key) > maxIdempotencyKey || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, invalid("invalid header: Idempotency-Key",
			detail{Field: "Idempotency-Key", Message: fmt.Sprintf("must have at most %d printable ASCII characters", maxIdempotencyKey)})
	}
	a := accessOf(c.UserContext())
	var described []string // sorted, since a proxy may change the order of headers
	for name, value := range c.Request().Header.All() {
		if strings.HasPrefix(string(name), "Dlq-") {
			described = append(described, string(name)+": "+string(value))
		}
	}
	slices.Sort(described)
	request := [][]byte{c.Request().Body(), []byte(c.Get(fiber.HeaderContentType))}
	for _, header := range described {
		request = append(request, []byte(header))
	}
	return dlq.NewIdempotencyKey([]string{a.Method, a.Subject, topic, key}, request...), nil
}

// readLetters reads the body of a request: JSON with one letter or a list of letters, or the value of one record.
func readLetters(c *fiber.Ctx) ([]dlq.Letter, error) {
	mediaType, _, err := mime.ParseMediaType(c.Get(fiber.HeaderContentType))
	if isJSON := err == nil && mediaType == fiber.MIMEApplicationJSON; !isJSON && c.Get(fiber.HeaderContentType) != "" {
		return readBinaryLetter(c)
	}
	b := readBody(c, append([]string{"messages"}, letterFields...)...)
	var letters []dlq.Letter
	if _, isList := b.fields["messages"]; isList {
		for _, name := range letterFields {
			if _, given := b.fields[name]; given {
				b.reject(name, "cannot be given together with messages")
			}
		}
		for i, raw := range b.list("messages", dlq.MaxLetters) {
			letters = append(letters, b.inner(item("messages", i), raw, letterFields).letter())
		}
	} else {
		if len(b.fields) == 0 && len(b.details) == 0 {
			b.reject("body", "must have a letter, or messages with a list of them")
		}
		letters = []dlq.Letter{b.letter()}
	}
	return letters, b.err()
}

func (b *body) letter() (l dlq.Letter) {
	if edit := b.edit(); edit != nil {
		edit.Apply(&l.Record)
	}
	if isPointer(&l.Record) {
		b.reject("headers", "a letter %s", badPointer)
	}
	f := &l.Failure
	f.Attempts = b.integer("attempts", 0, 1_000_000)
	if e := b.nested("error", "message", "class", "cause_class", "stack_trace"); e != nil {
		f.ErrorMessage, _ = e.text("message", maxErrorText)
		f.ErrorClass, _ = e.text("class", maxBulkText)
		f.CauseClass, _ = e.text("cause_class", maxBulkText)
		f.StackTrace, _ = e.text("stack_trace", maxStackTrace)
	}
	if o := b.nested("origin", "topic", "partition", "offset", "timestamp", "consumer_group"); o != nil {
		f.Origin.ConsumerGroup, _ = o.text("consumer_group", maxBulkText)
		if _, given := o.fields["topic"]; given {
			f.Origin.Topic = o.topic()
			f.Origin.Family = dlq.FamilyHandedIn
		}
		if partition := o.optionalInteger("partition", 1<<31-1); partition != nil {
			f.Origin.Partition = new(int32(*partition))
		}
		f.Origin.Offset = o.optionalInteger("offset", 1<<62)
		f.Origin.Timestamp = o.instant("timestamp")
		if f.Origin.Topic == "" && (f.Origin.Partition != nil || f.Origin.Offset != nil || !f.Origin.Timestamp.IsZero()) {
			o.reject("topic", "is required with partition, offset and timestamp")
		}
	}
	return l
}

func (b *body) optionalInteger(name string, most int) *int64 {
	if _, given := b.fields[name]; !given {
		return nil
	}
	return new(int64(b.integer(name, 0, most)))
}

// readBinaryLetter reads a request whose body is the value of a record.
func readBinaryLetter(c *fiber.Ctx) ([]dlq.Letter, error) {
	var l dlq.Letter
	errs := &fieldErrors{}
	l.Record.Value = append([]byte{}, c.Request().Body()...) // empty and not null: the letter is no pointer
	if c.Get(fiber.HeaderContentEncoding, "identity") != "identity" {
		errs.reject(fiber.HeaderContentEncoding, "must not be given: send the value as it is")
	}
	bytes := func(name, value string, isBinary bool) []byte {
		if !isBinary {
			return []byte(value)
		}
		decoded, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			errs.reject(name, "must be base64 (RFC 4648, with padding)")
		}
		return decoded
	}
	for rawName, rawValue := range c.Request().Header.AllInOrder() {
		name, value := string(rawName), string(rawValue)
		switch {
		case strings.HasPrefix(name, headerBinaryPrefix):
			l.Record.Headers = append(l.Record.Headers, dlq.Header{Key: strings.ToLower(name[len(headerBinaryPrefix):]), Value: bytes(name, value, true)})
		case strings.HasPrefix(name, headerPrefix):
			l.Record.Headers = append(l.Record.Headers, dlq.Header{Key: strings.ToLower(name[len(headerPrefix):]), Value: []byte(value)})
		case name == headerKey || name == headerBinaryKey:
			l.Record.Key = bytes(name, value, name == headerBinaryKey)
		case name == headerOriginTopic:
			if !dlq.IsTopicName(value) {
				errs.reject(name, "%s", badTopic)
			}
			l.Failure.Origin.Topic, l.Failure.Origin.Family = value, dlq.FamilyHandedIn
		case name == headerConsumerGroup:
			l.Failure.Origin.ConsumerGroup = value
		case name == headerErrorText:
			l.Failure.ErrorMessage = value
		case name == headerErrorClass:
			l.Failure.ErrorClass = value
		case slices.Contains(keptHeaders, strings.ToLower(name)) || dlq.IsCorrelationHeader(name):
			l.Record.Headers = append(l.Record.Headers, dlq.Header{Key: strings.ToLower(name), Value: []byte(value)})
		}
	}
	return []dlq.Letter{l}, errs.toError("invalid headers")
}
