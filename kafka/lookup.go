package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"dlqmanager/dlq"
)

// lookupTimeout bounds a lookup. An available broker answers in milliseconds.
const lookupTimeout = 4 * time.Second

// Lookup reads records and offsets from Kafka for rare calls. Each call has connections of its own. It is
// safe for concurrent use.
type Lookup struct {
	o   Options
	log *zap.Logger
	// slots bounds the concurrent lookups. Each lookup has connections, and perhaps a record in memory.
	slots *semaphore.Weighted
}

// NewLookup does not connect; the calls do.
func NewLookup(o Options, log *zap.Logger) *Lookup {
	return &Lookup{o: o.withDefaults(), log: log, slots: semaphore.NewWeighted(4)}
}

// client waits for a slot, and returns a client that occupies the slot until done is called.
func (l *Lookup) client(ctx context.Context, name string, more ...kgo.Opt) (client *kgo.Client, done func(), err error) {
	if err := l.slots.Acquire(ctx, 1); err != nil {
		return nil, nil, err
	}
	if client, err = newClient(append(l.o.connection(l.log, name), more...)); err != nil {
		l.slots.Release(1)
		return nil, nil, err
	}
	return client, func() { client.Close(); l.slots.Release(1) }, nil
}

// Fetch reads the record at the origin that a pointer names; see dlq.Detail.IsPointer. written is
// when the pointer itself was written. The error wraps dlq.ErrGone when Kafka no longer has the
// record, or when the origin names no partition or offset. After another error, a later call may
// succeed.
func (l *Lookup) Fetch(ctx context.Context, origin dlq.Origin, written time.Time) (dlq.Record, error) {
	if origin.Partition == nil || origin.Offset == nil {
		return dlq.Record{}, fmt.Errorf("the dead letter names no partition and offset: %w", dlq.ErrGone)
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	at := fmt.Sprintf("%s[%d] at offset %d", origin.Topic, *origin.Partition, *origin.Offset)
	r, err := l.read(ctx, origin.Topic, *origin.Partition, *origin.Offset)
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange):
		return dlq.Record{}, fmt.Errorf("%s: %w", at, dlq.ErrGone)
	case err != nil:
		return dlq.Record{}, fmt.Errorf("read %s: %w", at, withGrant(err, kmsg.ACLOperationRead, origin.Topic, ""))
	case !written.IsZero() && r.Timestamp.After(written):
		// The topic was deleted and re-created, and has another record at this offset.
		return dlq.Record{}, fmt.Errorf("%s is a record of a later time: %w", at, dlq.ErrGone)
	}
	return recordOf(r), nil
}

// read returns kerr.OffsetOutOfRange for a record that does not exist.
func (l *Lookup) read(ctx context.Context, topic string, partition int32, offset int64) (*kgo.Record, error) {
	client, done, err := l.client(ctx, "pointer",
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(offset)}}),
		// The read of a deleted offset is an error. Otherwise the client would read another record.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		// A broker returns at least one batch, however large.
		kgo.FetchMaxPartitionBytes(1<<20), kgo.FetchMaxBytes(1<<20))
	if err != nil {
		return nil, err
	}
	defer done()
	// Without this request, the client would wait for a topic that does not exist, and for an offset at the
	// end.
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	end, found := ends.Lookup(topic, partition)
	switch {
	case found && end.Err != nil:
		return nil, end.Err
	case !found && ends.Error() != nil:
		return nil, ends.Error()
	case !found || offset >= end.Offset:
		return nil, kerr.OffsetOutOfRange
	}
	fetches := client.PollRecords(ctx, 1)
	if records := fetches.Records(); len(records) > 0 && records[0].Offset == offset {
		return records[0], nil
	} else if len(records) > 0 {
		return nil, kerr.OffsetOutOfRange // compaction has removed the record
	}
	if err := fetches.Err(); err != nil {
		return nil, err
	}
	return nil, context.DeadlineExceeded
}

func recordOf(r *kgo.Record) dlq.Record {
	headers := make([]dlq.Header, len(r.Headers))
	for i, header := range r.Headers {
		headers[i] = dlq.Header(header)
	}
	return dlq.Record{Key: r.Key, Value: r.Value, Headers: headers, Timestamp: r.Timestamp.UTC()}
}

// pointedBy returns the origin that a message only points to, or nil for a message with a
// record of its own. The origin must be in the message's original topic: otherwise the
// headers of a dead letter could copy any record into any topic.
func pointedBy(e *dlq.Envelope) *dlq.Origin {
	if e.Record.Key != nil || e.Record.Value != nil {
		return nil
	}
	for _, f := range familiesOf(e.Record.Headers) {
		origin, ok := f.origin(e.Record.Headers)
		if ok && f.name == dlq.FamilyShareGroup && origin.Topic == e.OriginalTopic {
			return &origin
		}
	}
	return nil
}

// EndOffsets returns the offset of the next record of every partition of the topics, sorted by
// topic and partition. It leaves out topics that do not exist, and topics that the manager may
// not read. Its errors wrap dlq.ErrUnavailable.
func (l *Lookup) EndOffsets(ctx context.Context, topics []string) ([]dlq.EndOffset, error) {
	if len(topics) == 0 {
		return nil, nil // a request without topics would ask for all topics
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	client, done, err := l.client(ctx, "ends")
	if err != nil {
		return nil, fmt.Errorf("end offsets: %w: %w", dlq.ErrUnavailable, err)
	}
	defer done()
	failed, err := topicErrors(ctx, client, topics)
	if err != nil {
		return nil, fmt.Errorf("end offsets: %w: %w", dlq.ErrUnavailable, err)
	}
	topics = slices.DeleteFunc(slices.Clone(topics), func(topic string) bool { return isDenied(failed[topic]) })
	if len(topics) == 0 {
		return nil, nil
	}
	listed, err := kadm.NewClient(client).ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("end offsets: %w: %w", dlq.ErrUnavailable, err)
	}
	var ends []dlq.EndOffset
	for _, end := range listed.Offsets().Sorted() {
		if end.Partition >= 0 {
			ends = append(ends, dlq.EndOffset{Topic: end.Topic, Partition: end.Partition, Offset: end.At})
		}
	}
	return ends, endsError(listed)
}

// endsError returns an error if the end of a partition is unknown, except in topics that are missing or
// denied. If the end were left out, the old records of the partition would count as new.
func endsError(listed kadm.ListedOffsets) error {
	var failed error
	listed.Each(func(o kadm.ListedOffset) {
		missing := []error{kerr.UnknownTopicOrPartition, kerr.InvalidTopicException, kerr.TopicAuthorizationFailed}
		isMissing := o.Partition < 0 && slices.ContainsFunc(missing, func(err error) bool { return errors.Is(o.Err, err) })
		if o.Err != nil && !isMissing {
			failed = fmt.Errorf("end offset of %s[%d]: %w: %w", o.Topic, o.Partition, dlq.ErrUnavailable, o.Err)
		}
	})
	return failed
}
