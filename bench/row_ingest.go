package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"dlqmanager/dlq"
)

// ingestBatch is about the size of one poll of a busy topic.
const ingestBatch = 500

// measureIngest compares the ingest into PostgreSQL, where each batch is durable before
// the next, with COPY, the fastest way into a table: in the same batches, and in one
// COPY per connection. COPY does not detect duplicates, and its rows are already
// encoded.
func (b *bench) measureIngest(ctx context.Context) error {
	messages := b.messages / 2
	b.step("ingest: preparing %s messages", count(float64(messages)))
	if err := b.template(ctx, "empty"); err != nil {
		return err
	}
	arrivals := b.arrivals(messages)
	if err := b.encodeHeaders(ctx); err != nil {
		return err
	}
	// The messages of the whole run are in this process's memory, unlike in a worker.
	// Their garbage collection would slow the measurement.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	var ours, batches, whole spread
	for run := range b.runs {
		b.step("ingest, run %d of %d", run+1, b.runs)
		for _, side := range []struct {
			to    *spread
			store func(context.Context, *database, []dlq.Arrival) error
			batch int
		}{
			{&ours, storeArrivals, ingestBatch},
			{&batches, b.copyArrivals, ingestBatch},
			{&whole, b.copyArrivals, messages},
		} {
			took, err := b.ingestOnce(ctx, arrivals, side.batch, side.store)
			if err != nil {
				return err
			}
			*side.to = append(*side.to, rate(messages, took))
		}
		b.step("       ours %s, COPY in batches %s, at once %s", perSecond(ours[run]), perSecond(batches[run]), perSecond(whole[run]))
	}
	title := "ingest of 1 KB messages into PostgreSQL, batches of 500, each durable; baseline: pgx COPY of the same rows"
	b.add(row{number: 6, label: "ingest vs COPY in the same batches", title: title + " in the same batches",
		ours: ours.show(perSecond), base: batches.show(perSecond), judged: ours.over(batches), goal: goal{atLeast: 0.75},
		notes: []string{"both use as many connections as there are lanes, on an empty table with all its indexes; " +
			"ours also detects duplicates and encodes the headers"}})
	b.add(row{number: 6, label: "ingest vs one COPY for each connection", title: title + ", one COPY for each connection",
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
	_, err := db.store.StoreArrivals(ctx, arrivals)
	return err
}

var (
	bodyColumns = []string{"message_id", "topic_id", "partition", "record_offset", "key", "key_hash", "value", "headers",
		"record_timestamp", "origin_family"}
	messageColumns = []string{"id", "original_topic", "dlq_topic", "error_message", "max_retries", "payload", "status", "key_hash"}
)

// copyArrivals writes the same rows with two COPYs in one transaction.
func (b *bench) copyArrivals(ctx context.Context, db *database, arrivals []dlq.Arrival) error {
	tx, err := db.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // no effect after the commit
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"dlq", "dlq_message_bodies"}, bodyColumns,
		pgx.CopyFromSlice(len(arrivals), func(i int) ([]any, error) {
			a := &arrivals[i]
			return []any{[16]byte(a.ID), a.Source.TopicID, a.Source.Partition, a.Source.Offset, a.Record.Key, dlq.KeyHash(a.Record.Key, a.ID),
				a.Record.Value, b.headersOf[string(a.Record.Key)], a.Record.Timestamp, a.Origin.Family}, nil
		}))
	if err != nil {
		return err
	}
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"dlq", "dlq_messages"}, messageColumns,
		pgx.CopyFromSlice(len(arrivals), func(i int) ([]any, error) {
			a := &arrivals[i]
			return []any{[16]byte(a.ID), a.Origin.Topic, a.DLQTopic, a.ErrorMessage, int32(a.MaxRetries), []byte(a.Payload), string(a.Status()),
				dlq.KeyHash(a.Record.Key, a.ID)}, nil
		}))
	if err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// encodeHeaders reads from the store how it encodes the headers of the samples, by
// their keys.
func (b *bench) encodeHeaders(ctx context.Context) error {
	db, err := b.copyOf(ctx, "empty")
	if err != nil {
		return err
	}
	if err := storeArrivals(ctx, db, b.samples); err != nil {
		return err
	}
	b.headersOf = map[string][]byte{}
	var key, headers []byte
	rows, err := db.pool.Query(ctx, "SELECT key, headers FROM dlq.dlq_message_bodies")
	if err != nil {
		return err
	}
	if _, err := pgx.ForEachRow(rows, []any{&key, &headers}, func() error {
		b.headersOf[string(key)] = append([]byte(nil), headers...)
		return nil
	}); err != nil {
		return err
	}
	return b.drop(ctx, db)
}
