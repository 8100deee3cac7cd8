package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"dlqmanager/dlq"
)

// Fetch reads the record that a pointer names; see dlq.Detail.IsPointer. The record is at an
// origin, for a dead letter that was written at the given time.
// The error wraps dlq.ErrGone when Kafka no longer has the record, or when the origin names
// none. Other errors may pass.
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
		return dlq.Record{}, fmt.Errorf("read %s: %w", at, withGrant(err, kmsg.ACLOperationRead, kmsg.ACLResourceTypeTopic, origin.Topic))
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
		// An offset that retention has deleted is an error, and not another record.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		// A broker returns at least one batch, however large.
		kgo.FetchMaxPartitionBytes(1<<20), kgo.FetchMaxBytes(1<<20))
	if err != nil {
		return nil, err
	}
	defer done()
	// The client would wait for a topic that does not exist, and for an offset at the end.
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

// pointedBy returns the origin that a message only points to; ok is false for a message
// with a record of its own. The origin is in the topic that the message goes to: otherwise
// the headers of a dead letter could copy any record into any topic.
func pointedBy(e *dlq.Envelope) (origin dlq.Origin, ok bool) {
	if e.Record.Key != nil || e.Record.Value != nil {
		return dlq.Origin{}, false
	}
	for _, f := range familiesOf(e.Record.Headers) {
		if f.name == dlq.FamilyShareGroup {
			origin, ok = f.origin(e.Record.Headers)
			return origin, ok && origin.Topic == e.OriginalTopic
		}
	}
	return dlq.Origin{}, false
}
