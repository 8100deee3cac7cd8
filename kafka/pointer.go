package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// Pointers reads the records that pointers name; see dlq.Detail.IsPointer. It is safe for
// concurrent use.
type Pointers struct {
	o   Options
	log *zap.Logger
}

// NewPointers does not connect; Fetch does.
func NewPointers(o Options, log *zap.Logger) *Pointers {
	return &Pointers{o: o.withDefaults(), log: log}
}

// pointedTimeout bounds one fetch. A fetch from an available broker takes milliseconds.
const pointedTimeout = 4 * time.Second

// Fetch reads the record at an origin. The error wraps dlq.ErrGone when Kafka no longer has
// the record, or when the origin names none. Other errors may pass.
func (p *Pointers) Fetch(ctx context.Context, origin dlq.Origin) (dlq.Record, error) {
	if origin.Partition == nil || origin.Offset == nil {
		return dlq.Record{}, fmt.Errorf("the dead letter names no partition and offset: %w", dlq.ErrGone)
	}
	ctx, cancel := context.WithTimeout(ctx, pointedTimeout)
	defer cancel()
	at := fmt.Sprintf("%s[%d] at offset %d", origin.Topic, *origin.Partition, *origin.Offset)
	client, err := newClient(append(p.o.connection(p.log, "pointer"),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{origin.Topic: {*origin.Partition: kgo.NewOffset().At(*origin.Offset)}}),
		// An offset that retention has deleted is an error, and not another record.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		// A broker returns at least one batch, however large.
		kgo.FetchMaxPartitionBytes(1<<20), kgo.FetchMaxBytes(1<<20)))
	if err != nil {
		return dlq.Record{}, err
	}
	defer client.Close()
	fetches := client.PollRecords(ctx, 1)
	err = fetches.Err()
	if records := fetches.Records(); len(records) > 0 {
		if records[0].Offset == *origin.Offset {
			return recordOf(records[0]), nil
		}
		err = kerr.OffsetOutOfRange // compaction has removed the record
	}
	if errors.Is(err, kerr.OffsetOutOfRange) {
		return dlq.Record{}, fmt.Errorf("%s: %w", at, dlq.ErrGone)
	}
	return dlq.Record{}, fmt.Errorf("read %s: %w", at, err)
}

func recordOf(r *kgo.Record) dlq.Record {
	headers := make([]dlq.Header, len(r.Headers))
	for i, header := range r.Headers {
		headers[i] = dlq.Header{Key: header.Key, Value: header.Value}
	}
	return dlq.Record{Key: r.Key, Value: r.Value, Headers: headers, Timestamp: r.Timestamp.UTC()}
}

// pointedBy returns the origin that a message only points to; ok is false for a message
// with a record of its own.
func pointedBy(e *dlq.Envelope) (origin dlq.Origin, ok bool) {
	if e.Record.Key != nil || e.Record.Value != nil {
		return dlq.Origin{}, false
	}
	for _, f := range familiesOf(e.Record.Headers) {
		if f.name == dlq.FamilyShareGroup {
			origin, _ = f.origin(e.Record.Headers)
			return origin, true
		}
	}
	return dlq.Origin{}, false
}
