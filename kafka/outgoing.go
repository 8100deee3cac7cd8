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

// Original returns the record of a message before its failure, for a target outside Kafka. If
// the message only points to its record, lookup fetches the record; lookup is nil without Kafka.
// The error is a *dlq.DeliveryError.
func Original(ctx context.Context, e *dlq.Envelope, lookup *Lookup) (dlq.Record, error) {
	origin := pointedBy(e)
	if origin == nil {
		return ownRecord(&e.Record), nil
	}
	pointed, err := dlq.Record{}, errors.New("the record is in Kafka, which is not configured")
	if lookup != nil {
		pointed, err = lookup.Fetch(ctx, *origin, e.Record.Timestamp)
	}
	if err != nil {
		return dlq.Record{}, deliveryError(e.Target(), &sourceError{err})
	}
	return ownPointed(pointed), nil
}

// outgoing builds the record to republish, with the same value, byte for byte, and the
// message's own headers. Two more headers identify the message if it comes back.
//
// The record's timestamp is new. With the original timestamp, a target with a short retention
// would delete the record on arrival. The client's delivery timeout counts from the
// timestamp too, and would already be over.
func outgoing(e *dlq.Envelope, own dlq.Record, republishKey string) *kgo.Record {
	r := &kgo.Record{Topic: e.Target(), Key: own.Key, Value: own.Value}
	if republishKey == RepublishUUIDKey {
		r.Key = newKey()
	}
	r.Headers = withHeaders(own.Headers,
		kgo.RecordHeader{Key: headerMessageID, Value: []byte(e.ID.String())},
		kgo.RecordHeader{Key: headerRetryCount, Value: []byte(strconv.Itoa(e.RetryCount))})
	return r
}

// withHeaders returns the headers of a message, followed by more headers.
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
func (l *topicLocks) lock(ctx context.Context, topic string) (unlock func(), err error) {
	lock := l[maphash.String(topicSeed, topic)%uint64(len(l))]
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
