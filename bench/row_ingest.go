package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"dlqmanager/dlq"
	"dlqmanager/kafka"
)

// ingestBatch is about the size of one poll of a busy topic.
const ingestBatch = 500

// measureIngest compares the ingest into PostgreSQL with COPY, the fastest way into a table. There are two
// baselines: COPY in the same batches as the ingest, and one COPY for each connection. The ingest commits
// each batch before the next. COPY does not detect duplicates, and its rows are already encoded. The second
// part has dead letters of Spring's retry topics, which have the most headers and a stack trace. In the
// second part, our side also decodes the records.
func (b *bench) measureIngest(ctx context.Context) error {
	if err := b.template(ctx, "empty"); err != nil {
		return err
	}
	topics, err := dlq.NewTopics(dlq.DefaultTopicPatterns, nil)
	if err != nil {
		return err
	}
	plain, err := b.ingestInput(ctx, b.samples, nil)
	if err != nil {
		return err
	}
	title := "ingest of 1 KB messages into PostgreSQL, batches of 500, each durable; baseline: pgx COPY of the same rows"
	if err := b.compareIngest(ctx, plain, "ingest", title); err != nil {
		return err
	}
	rich, err := b.ingestInput(ctx, springSamples(b.samples, topics), topics)
	if err != nil {
		return err
	}
	return b.compareIngest(ctx, rich, "ingest of Spring's headers", title+"; each has 16 headers of Spring's retry topics with a stack trace of 4 KB, "+
		"which our side decodes")
}

// ingestInput has the messages of a measurement.
type ingestInput struct {
	arrivals []dlq.Arrival
	// encoded are the headers in the store's encoding, by the key of the record.
	encoded map[string][]byte
	// topics is set if our side decodes each message from its record.
	topics *dlq.Topics
}

func (b *bench) ingestInput(ctx context.Context, samples []dlq.Arrival, topics *dlq.Topics) (*ingestInput, error) {
	encoded, err := b.encodeHeaders(ctx, samples)
	return &ingestInput{arrivals: copies(samples, b.messages/2), encoded: encoded, topics: topics}, err
}

func (b *bench) compareIngest(ctx context.Context, in *ingestInput, label, title string) error {
	messages := len(in.arrivals)
	// In a worker only a few batches are in memory. This process has the messages of the whole run in
	// memory, so frequent garbage collections would slow the measurement down.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	var ours, batches, whole spread
	for run := range b.runs {
		b.step("%s, run %d of %d", label, run+1, b.runs)
		for _, side := range []struct {
			to    *spread
			store func(context.Context, *database, []dlq.Arrival) error
			batch int
		}{
			{&ours, in.store, ingestBatch},
			{&batches, in.copy, ingestBatch},
			{&whole, in.copy, messages},
		} {
			took, err := b.ingestOnce(ctx, in.arrivals, side.batch, side.store)
			if err != nil {
				return err
			}
			*side.to = append(*side.to, rate(messages, took))
		}
		b.step("       ours %s, COPY in batches %s, at once %s", perSecond(ours[run]), perSecond(batches[run]), perSecond(whole[run]))
	}
	b.add(row{number: 6, label: label + " vs COPY in the same batches", title: title + " in the same batches",
		ours: ours.show(perSecond), base: batches.show(perSecond), judged: ours.over(batches), goal: goal{atLeast: 0.75},
		notes: []string{"both use as many connections as there are lanes, on an empty table with all its indexes; " +
			"ours also detects duplicates and encodes the headers"}})
	b.add(row{number: 6, label: label + " vs one COPY for each connection", title: title + ", one COPY for each connection",
		ours: ours.show(perSecond), base: whole.show(perSecond), judged: ours.over(whole), goal: goal{atLeast: 0.75}})
	return nil
}

// ingestOnce stores the arrivals in batches into an empty database, with one connection
// for each lane.
func (b *bench) ingestOnce(ctx context.Context, arrivals []dlq.Arrival, batch int,
	store func(context.Context, *database, []dlq.Arrival) error,
) (time.Duration, error) {
	db, err := b.copyOf(ctx, "empty")
	if err != nil {
		return 0, err
	}
	runtime.GC()
	started := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	for lane := range b.lanes {
		share := arrivals[lane*len(arrivals)/b.lanes : (lane+1)*len(arrivals)/b.lanes]
		group.Go(func() error {
			for from := 0; from < len(share); from += batch {
				if err := store(groupCtx, db, share[from:min(from+batch, len(share))]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = group.Wait()
	took := time.Since(started)
	if dropErr := b.drop(ctx, db); err == nil {
		err = dropErr
	}
	return took, err
}

func storeArrivals(ctx context.Context, db *database, arrivals []dlq.Arrival) error {
	_, err := db.store.Ingest(ctx, arrivals, nil)
	return err
}

// store is our side of the comparison. If topics is set, it first decodes records, as the ingest does.
func (in *ingestInput) store(ctx context.Context, db *database, arrivals []dlq.Arrival) error {
	if in.topics == nil {
		return storeArrivals(ctx, db, arrivals)
	}
	decoded := make([]dlq.Arrival, len(arrivals))
	for i := range arrivals {
		a := &arrivals[i]
		record := &kgo.Record{Topic: a.DLQTopic, Partition: a.Source.Partition, Offset: a.Source.Offset,
			Key: a.Record.Key, Value: a.Record.Value, Timestamp: a.Record.Timestamp}
		for _, h := range a.Record.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		decoded[i] = kafka.ArrivalOf(in.topics, nil, a.MaxRetries, a.Source.TopicID, record)
	}
	return storeArrivals(ctx, db, decoded)
}

var (
	bodyColumns = []string{"message_id", "topic_id", "partition", "record_offset", "key", "key_hash", "value", "headers",
		"record_timestamp", "origin_family", "origin_partition", "origin_offset", "origin_timestamp", "consumer_group",
		"stack_trace", "cause_class", "origin_attempts", "trace_id"}
	messageColumns = []string{"id", "original_topic", "dlq_topic", "error_message", "error_class", "max_retries", "payload", "status", "key_hash"}
)

// copy writes the same rows with two COPYs in one transaction.
func (in *ingestInput) copy(ctx context.Context, db *database, arrivals []dlq.Arrival) error {
	tx, err := db.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // the rollback has no effect after the commit
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"dlq", "dlq_message_bodies"}, bodyColumns,
		pgx.CopyFromSlice(len(arrivals), func(i int) ([]any, error) {
			a := &arrivals[i]
			return []any{[16]byte(a.ID), a.Source.TopicID, a.Source.Partition, a.Source.Offset, a.Record.Key, dlq.KeyHash(a.Record.Key, a.ID),
				a.Record.Value, in.encoded[string(a.Record.Key)], a.Record.Timestamp, a.Origin.Family, a.Origin.Partition, a.Origin.Offset,
				a.Origin.Timestamp, a.Origin.ConsumerGroup, a.StackTrace, a.CauseClass, a.Attempts, a.TraceID}, nil
		}))
	if err != nil {
		return err
	}
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"dlq", "dlq_messages"}, messageColumns,
		pgx.CopyFromSlice(len(arrivals), func(i int) ([]any, error) {
			a := &arrivals[i]
			return []any{[16]byte(a.ID), a.Origin.Topic, a.DLQTopic, a.ErrorMessage, a.ErrorClass, int32(a.MaxRetries), []byte(a.Payload),
				string(a.Status()), dlq.KeyHash(a.Record.Key, a.ID)}, nil
		}))
	if err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// encodeHeaders stores the samples, and returns their headers in the store's encoding, by
// the keys of the samples.
func (b *bench) encodeHeaders(ctx context.Context, samples []dlq.Arrival) (map[string][]byte, error) {
	db, err := b.copyOf(ctx, "empty")
	if err != nil {
		return nil, err
	}
	if err := storeArrivals(ctx, db, samples); err != nil {
		return nil, err
	}
	encoded := map[string][]byte{}
	var key, headers []byte
	rows, err := db.pool.Query(ctx, "SELECT key, headers FROM dlq.dlq_message_bodies")
	if err != nil {
		return nil, err
	}
	if _, err := pgx.ForEachRow(rows, []any{&key, &headers}, func() error {
		encoded[string(key)] = append([]byte(nil), headers...)
		return nil
	}); err != nil {
		return nil, err
	}
	return encoded, b.drop(ctx, db)
}
