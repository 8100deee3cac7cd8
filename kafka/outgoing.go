package kafka

import (
	"context"
	"strconv"
	"sync"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/dlq"
)

// outgoing is the record that goes back: the same value, byte for byte, the
// same headers less those of the dead letter, and the two by which it is known
// if it returns.
//
// Its timestamp is new. With the original one, a target whose retention is
// shorter than the message's time in the queue would delete it on arrival, and
// the delivery timeout, which counts from the timestamp, would already be over.
func outgoing(e *dlq.Envelope, republishKey string) *kgo.Record {
	r := &kgo.Record{Topic: e.OriginalTopic, Key: e.Record.Key, Value: e.Record.Value}
	if republishKey == RepublishUUIDKey {
		r.Key = newKey()
	}
	headers := append(stripped(e.Record.Headers),
		dlq.Header{Key: headerMessageID, Value: []byte(e.ID.String())},
		dlq.Header{Key: headerRetryCount, Value: []byte(strconv.Itoa(e.RetryCount))},
	)
	r.Headers = make([]kgo.RecordHeader, len(headers))
	for i, header := range headers {
		r.Headers[i] = kgo.RecordHeader{Key: header.Key, Value: header.Value}
	}
	return r
}

func newKey() []byte { return []byte(uuid.NewString()) }

// tooBigForBatch is true a little early: lengths are counted at their greatest.
func tooBigForBatch(r *kgo.Record) bool {
	const batchFrame, recordFrame = 61, 40
	return batchFrame+recordFrame+contentBytes(r) > batchMaxBytes
}

// contentBytes is the size of everything in a record that its producer chose.
func contentBytes(r *kgo.Record) int {
	const headerFrame = 10 // both lengths, at their greatest
	size := len(r.Key) + len(r.Value)
	for _, header := range r.Headers {
		size += headerFrame + len(header.Key) + len(header.Value)
	}
	return size
}

// turns lets one caller at a time have a topic.
type turns struct {
	mu    sync.Mutex
	taken map[string]*turn
}

type turn struct {
	free    chan struct{} // holds one token while nobody has the topic
	callers int
}

func (t *turns) take(ctx context.Context, topic string) error {
	t.mu.Lock()
	if t.taken == nil {
		t.taken = map[string]*turn{}
	}
	mine := t.taken[topic]
	if mine == nil {
		mine = &turn{free: make(chan struct{}, 1)}
		mine.free <- struct{}{}
		t.taken[topic] = mine
	}
	mine.callers++
	t.mu.Unlock()
	select {
	case <-mine.free:
		return nil
	case <-ctx.Done():
		t.leave(topic, mine)
		return ctx.Err()
	}
}

func (t *turns) give(topic string) {
	t.mu.Lock()
	mine := t.taken[topic]
	t.mu.Unlock()
	mine.free <- struct{}{}
	t.leave(topic, mine)
}

// leave forgets a topic that nobody waits for.
func (t *turns) leave(topic string, mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.callers--; mine.callers == 0 {
		delete(t.taken, topic)
	}
}
