// Package dlqtest makes dead letters for tests. A test sets the fields that matter to it
// and gets valid values for the rest:
//
//	arrival := dlqtest.Arrival(dlqtest.Topic("orders"), dlqtest.Key("42"))
package dlqtest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/dlq/fingerprint"
)

// TopicID is the topic id of every arrival for which the test sets no Source.
var TopicID = [16]byte{0xd1, 0x0a}

// lastOffset gives every arrival of a test program an offset of its own.
var lastOffset atomic.Int64

// AllowedInternal is an internal topic that may be a target; see dlq.Topics.AllowInternal.
const AllowedInternal = "__shop.internal"

// Topics are the default dead-letter patterns.
func Topics(t testing.TB) *dlq.Topics {
	t.Helper()
	topics, err := dlq.NewTopics(dlq.DefaultTopicPatterns, nil)
	require.NoError(t, err)
	topics.AllowInternal([]string{AllowedInternal, "__shop*", "orders"})
	return topics
}

// Targets sends the original topics routed.* to the topic routed.
func Targets(t testing.TB) *dlq.Targets {
	t.Helper()
	targets, err := dlq.NewTargets(Topics(t), map[string]string{"routed.*": "routed"}, []string{"*"}, nil)
	require.NoError(t, err)
	return targets
}

// Arrival is a failed JSON order: PENDING, from orders.dlq, with the original topic orders.
func Arrival(options ...func(*dlq.Arrival)) dlq.Arrival {
	offset := lastOffset.Add(1)
	a := dlq.Arrival{
		DLQTopic: "orders.dlq",
		Failure:  dlq.Failure{Origin: dlq.Origin{Topic: "orders", Family: "topic-name"}, ErrorMessage: "boom"},
		Record: dlq.Record{
			Key:       fmt.Appendf(nil, "order-%d", offset),
			Headers:   []dlq.Header{{Key: "error", Value: []byte("boom")}},
			Timestamp: time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC),
		},
		MaxRetries: dlq.DefaultMaxRetries,
	}
	Value(fmt.Sprintf(`{"order": %d}`, offset))(&a)
	Source(dlq.Source{TopicID: TopicID, Offset: offset})(&a)
	for _, option := range options {
		option(&a)
	}
	return a
}

// Arrivals returns n arrivals in the order of their offsets.
func Arrivals(n int, options ...func(*dlq.Arrival)) []dlq.Arrival {
	arrivals := make([]dlq.Arrival, n)
	for i := range arrivals {
		arrivals[i] = Arrival(options...)
	}
	return arrivals
}

// Topic sets the original topic and the dead-letter topic that belongs to it.
func Topic(original string) func(*dlq.Arrival) {
	return func(a *dlq.Arrival) { a.Origin.Topic, a.DLQTopic = original, original+".dlq" }
}

// FromTopic sets both topics.
func FromTopic(dlqTopic, original string) func(*dlq.Arrival) {
	return func(a *dlq.Arrival) { a.DLQTopic, a.Origin.Topic = dlqTopic, original }
}

// Cause sets a fingerprint with this text as its message.
func Cause(message string) func(*dlq.Arrival) {
	sum := sha256.Sum256([]byte(message))
	return func(a *dlq.Arrival) {
		a.Fingerprint = fingerprint.Fingerprint{Key: [16]byte(sum[:16]), Version: fingerprint.Version, Scope: "pricing", Rule: "message", Message: message}
	}
}

// Key sets the record's key.
func Key(key string) func(*dlq.Arrival) {
	return func(a *dlq.Arrival) { a.Record.Key = []byte(key) }
}

// NoKey makes the record's key Kafka's null.
func NoKey(a *dlq.Arrival) { a.Record.Key = nil }

// Value sets the record's value, and the payload when it is JSON.
func Value(value string) func(*dlq.Arrival) {
	return func(a *dlq.Arrival) {
		a.Record.Value = []byte(value)
		a.Payload = dlq.PayloadOf(a.Record.Value)
	}
}

// Payload sets the payload, the searchable copy of the value, and leaves the value unchanged.
func Payload(payload string) func(*dlq.Arrival) {
	return func(a *dlq.Arrival) { a.Payload = json.RawMessage(payload) }
}

// Headers sets the record's headers.
func Headers(headers ...dlq.Header) func(*dlq.Arrival) {
	return func(a *dlq.Arrival) { a.Record.Headers = headers }
}

// Error sets the error message.
func Error(message string) func(*dlq.Arrival) {
	return func(a *dlq.Arrival) { a.ErrorMessage = message }
}

// Retries sets how many retries the message has had and may have.
func Retries(count, limit int) func(*dlq.Arrival) {
	return func(a *dlq.Arrival) { a.RetryCount, a.MaxRetries = count, limit }
}

// Source sets the position in Kafka and the id.
func Source(s dlq.Source) func(*dlq.Arrival) {
	return func(a *dlq.Arrival) { a.Source, a.ID = s, dlq.RecordID(s, a.Record.Timestamp) }
}

// Message is an arrival as a store first returns it.
func Message(options ...func(*dlq.Message)) dlq.Message {
	a := Arrival()
	at := time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC)
	m := dlq.Message{
		ID: a.ID, Seq: a.Source.Offset, OriginalTopic: a.Origin.Topic, DLQTopic: a.DLQTopic, ErrorMessage: a.ErrorMessage,
		MaxRetries: a.MaxRetries, Payload: a.Payload, Status: a.Status(), CreatedAt: at, UpdatedAt: at,
	}
	for _, option := range options {
		option(&m)
	}
	return m
}

// Pending is how many messages of the group are PENDING.
func Pending(g *dlq.Group) (n int64) {
	for _, c := range g.Counts {
		if c.Status == dlq.StatusPending {
			n += c.Messages
		}
	}
	return n
}

// Detail returns all that is stored of a message, or dlq.ErrNotFound.
func Detail(ctx context.Context, s interface {
	Details(ctx context.Context, q dlq.DetailQuery) ([]dlq.Detail, error)
}, id dlq.ID) (dlq.Detail, error) {
	found, err := s.Details(ctx, dlq.DetailQuery{IDs: []dlq.ID{id}, AllPayloads: true})
	if err == nil && len(found) == 0 {
		err = dlq.MessageNotFound(id)
	}
	if err != nil {
		return dlq.Detail{}, err
	}
	return found[0], nil
}

// Owner is the workflow of a single retry. Each call returns another owner.
func Owner() dlq.Owner {
	run := dlq.NewID()
	return dlq.Owner{WorkflowID: "retry-message-" + run.String(), Token: run.String()}
}

// Bulk returns a bulk retry that a test can create.
func Bulk(topic string, lanes int, options ...func(*dlq.JobSpec)) dlq.Job {
	id := dlq.NewID()
	b := dlq.Job{ID: id, WorkflowID: "retry-all-" + id.String(), Lanes: lanes,
		Spec: dlq.JobSpec{Kind: dlq.KindRetry, Filter: dlq.Filter{Topic: topic}, Order: dlq.OrderKey}}
	for _, option := range options {
		option(&b.Spec)
	}
	return b
}

// Rate limits a bulk retry to messages per second.
func Rate(messages int) func(*dlq.JobSpec) {
	return func(s *dlq.JobSpec) { s.RateLimit = messages }
}

// Filter sets the filter of a bulk retry, except for its topic.
func Filter(f dlq.Filter) func(*dlq.JobSpec) {
	return func(s *dlq.JobSpec) {
		f.Topic = s.Topic
		s.Filter = f
	}
}

// Lane is one lane of a started bulk retry.
func Lane(b dlq.Job, number int) dlq.Lane {
	return dlq.Lane{Job: b.ID, Owner: b.Owner(), Spec: b.Spec, UpperBound: b.UpperBound, MultiTarget: b.MultiTarget, Number: number,
		Buckets: dlq.BucketRange{Last: dlq.Buckets - 1}}
}

// Outcome is the outcome of a retry with this result.
func Outcome(id dlq.ID, result dlq.Result) dlq.Outcome {
	o := dlq.Outcome{ID: id, Result: result}
	switch result {
	case dlq.ResultDelivered, dlq.ResultReleased, dlq.ResultSkipped: // have no error
	case dlq.ResultFailed, dlq.ResultWaiting:
		o.Category, o.Error = dlq.CategoryTransient, "broker unavailable"
	case dlq.ResultRejected:
		o.Category, o.Error = dlq.CategoryBadData, "record too large"
	}
	return o
}

// Outcomes has an outcome with this result for every message of a page. Waiting messages are due at once.
func Outcomes(page []dlq.PageEnvelope, result dlq.Result) []dlq.PageOutcome {
	outcomes := make([]dlq.PageOutcome, len(page))
	for i := range page {
		outcomes[i] = dlq.PageOutcome{Outcome: Outcome(page[i].ID, result), RetryCount: page[i].RetryCount}
		if result == dlq.ResultWaiting {
			outcomes[i].Wait.Target = dlq.Target{Topic: page[i].OriginalTopic, Partition: dlq.AnyPartition}
		}
	}
	return outcomes
}

// Delivered is the outcome of a retry that was delivered.
func Delivered(id dlq.ID) dlq.Outcome { return dlq.Outcome{ID: id, Result: dlq.ResultDelivered} }

// Failed is the outcome of a retry that failed.
func Failed(id dlq.ID) dlq.Outcome {
	return dlq.Outcome{ID: id, Result: dlq.ResultFailed, Category: dlq.CategoryTransient, Error: "broker unavailable"}
}

// Change returns a bulk change that a test can create.
func Change(kind dlq.JobKind, f dlq.Filter) dlq.Job {
	id := dlq.NewID()
	return dlq.Job{ID: id, WorkflowID: "change-all-" + id.String(), Spec: dlq.JobSpec{Kind: kind, Filter: f}}
}
