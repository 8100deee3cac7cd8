package kafka

import (
	"context"
	"errors"
	"hash/maphash"
	"strconv"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/dlq"
)

// outgoing builds the record to republish, with the same value, byte for byte, and the
// message's own headers. Two more headers identify the message if it comes back.
//
// Its timestamp is new. With the original timestamp, a target with a short retention
// would delete the record on arrival. The client's delivery timeout counts from the
// timestamp too, and would already be over.
func outgoing(e *dlq.Envelope, republishKey string) *kgo.Record {
	own := ownRecord(&e.Record)
	return outgoingRecord(e, own.Key, own.Value, own.Headers, republishKey)
}

// outgoingPointed builds the record from the record that the message points to. The latter is no
// dead letter, and keeps the headers of families.
func outgoingPointed(e *dlq.Envelope, pointed *dlq.Record, republishKey string) *kgo.Record {
	return outgoingRecord(e, pointed.Key, pointed.Value, without(pointed.Headers, nil), republishKey)
}

// Original returns the record of a message before its failure, for a target
// outside Kafka. If the message only points to its record, the record is fetched with lookup; nil
// without Kafka. The error is a *dlq.DeliveryError.
func Original(ctx context.Context, e *dlq.Envelope, lookup *Lookup) (dlq.Record, error) {
	origin, isPointer := pointedBy(e)
	if !isPointer {
		return ownRecord(&e.Record), nil
	}
	pointed, err := dlq.Record{}, errors.New("the record is in Kafka, which is not configured")
	if lookup != nil {
		pointed, err = lookup.Fetch(ctx, origin, e.Record.Timestamp)
	}
	if err != nil {
		return dlq.Record{}, deliveryError(e.Target(), &sourceError{err})
	}
	pointed.Headers = without(pointed.Headers, nil)
	return pointed, nil
}

func outgoingRecord(e *dlq.Envelope, key, value []byte, headers []dlq.Header, republishKey string) *kgo.Record {
	r := &kgo.Record{Topic: e.Target(), Key: key, Value: value}
	if republishKey == RepublishUUIDKey {
		r.Key = newKey()
	}
	r.Headers = withHeaders(headers,
		kgo.RecordHeader{Key: headerMessageID, Value: []byte(e.ID.String())},
		kgo.RecordHeader{Key: headerRetryCount, Value: []byte(strconv.Itoa(e.RetryCount))})
	return r
}

// withHeaders are the headers of a message, and more.
func withHeaders(headers []dlq.Header, more ...kgo.RecordHeader) []kgo.RecordHeader {
	all := make([]kgo.RecordHeader, 0, len(headers)+len(more))
	for _, header := range headers {
		all = append(all, kgo.RecordHeader(header))
	}
	return append(all, more...)
}

func newKey() []byte { return []byte(uuid.NewString()) }

// tooBigForBatch assumes the longest encoding of every length, and so errs on the side
// of true.
func tooBigForBatch(r *kgo.Record) bool {
	const batchFrame, recordFrame = 61, 40
	return batchFrame+recordFrame+contentBytes(r) > batchMaxBytes
}

// contentBytes is the size of everything in a record that its producer chose.
func contentBytes(r *kgo.Record) int {
	const headerFrame = 10 // the longest encoding of both lengths
	size := len(r.Key) + len(r.Value)
	for _, header := range r.Headers {
		size += headerFrame + len(header.Key) + len(header.Value)
	}
	return size
}

// topicLocks has a lock for each topic. Topics with the same hash share a lock, so that the memory
// does not grow with the number of topics.
type topicLocks [1024]chan struct{}

var topicSeed = maphash.MakeSeed()

func newTopicLocks() *topicLocks {
	var locks topicLocks
	for i := range locks {
		locks[i] = make(chan struct{}, 1)
	}
	return &locks
}

// lock waits for the topic's lock, or returns the context's error.
func (l *topicLocks) lock(ctx context.Context, topic string) error {
	select {
	case l.of(topic) <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *topicLocks) unlock(topic string) { <-l.of(topic) }

func (l *topicLocks) of(topic string) chan struct{} {
	return l[maphash.String(topicSeed, topic)%uint64(len(l))]
}
