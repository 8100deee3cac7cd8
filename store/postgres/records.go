package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"dlqmanager/dlq"
)

// storeSQL stores a batch in one statement. The bodies' unique source decides which
// are new: only a message whose body was stored is stored. Bodies go in by source,
// so that two programs that take the same records lock them in the same order; rows
// go in by the order of the batch, which is therefore the order of seq.
//
// It also counts the messages that came back for the bulk retry that sent them last:
// the one whose id is the owner's token, if that is a bulk retry's at all. It locks
// the jobs once every body is in, and in one order, so that two programs that do so
// never wait for each other.
const storeSQL = `
WITH arrival AS (
	SELECT *
	FROM unnest(@ids::uuid[], @dlq_topics::text[], @original_topics::text[], @error_messages::text[], @error_classes::text[],
		@retry_counts::int[], @max_retries::int[], @payloads::text[], @statuses::text[], @key_hashes::int[], @previous_ids::uuid[],
		@topic_ids::uuid[], @partitions::int[], @offsets::bigint[], @keys::bytea[], @values::bytea[], @headers::bytea[],
		@timestamps::timestamptz[], @origin_partitions::int[], @origin_offsets::bigint[], @families::text[], @stack_traces::text[])
	WITH ORDINALITY AS a (id, dlq_topic, original_topic, error_message, error_class,
		retry_count, max_retries, payload, status, key_hash, previous_id,
		topic_id, partition, record_offset, key, value, headers,
		record_timestamp, origin_partition, origin_offset, origin_family, stack_trace, place)
), body AS (
	INSERT INTO dlq.dlq_message_bodies (message_id, topic_id, partition, record_offset, key, key_hash, value, headers,
		record_timestamp, origin_partition, origin_offset, origin_family, stack_trace)
	SELECT id, topic_id, partition, record_offset, key, CASE WHEN key IS NOT NULL THEN key_hash END, value, headers,
		record_timestamp, origin_partition, origin_offset, origin_family, stack_trace
	FROM arrival
	ORDER BY topic_id, partition, record_offset, place
	ON CONFLICT (topic_id, partition, record_offset) DO NOTHING
	RETURNING message_id
), came_back AS (
	SELECT CASE WHEN p.owner_token ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' THEN p.owner_token::uuid END AS bulk_id,
		count(*) AS n
	FROM arrival a
	JOIN body b ON b.message_id = a.id
	CROSS JOIN LATERAL (
		SELECT m.owner_token FROM dlq.dlq_messages m WHERE m.id = a.previous_id
		UNION ALL
		SELECT m.owner_token FROM dlq.dlq_messages_archive m WHERE m.id = a.previous_id
		LIMIT 1
	) AS p
	WHERE a.previous_id IS NOT NULL
	GROUP BY 1
), job AS MATERIALIZED (
	SELECT j.id, came_back.n
	FROM came_back
	JOIN dlq.dlq_bulk_retries j ON j.id = came_back.bulk_id
	ORDER BY j.id
	FOR UPDATE OF j
), counted AS (
	UPDATE dlq.dlq_bulk_retries j SET came_back = j.came_back + job.n FROM job WHERE j.id = job.id
)
INSERT INTO dlq.dlq_messages (id, dlq_topic, original_topic, error_message, error_class, retry_count, max_retries, payload,
	status, key_hash, previous_id)
SELECT a.id, a.dlq_topic, a.original_topic, a.error_message, a.error_class, a.retry_count, a.max_retries, a.payload::jsonb,
	a.status, a.key_hash, a.previous_id
FROM arrival a
JOIN body b ON b.message_id = a.id
ORDER BY a.place`

// ingestLock is the advisory lock that ingest shares while it stores, and that the
// creation of a bulk retry takes alone to read its bound. The order of arrival is
// given out before it is committed: without the lock, a message below the bound
// could become visible after it was counted. A program that inserts messages by hand
// is not covered unless it takes the lock too. The number is arbitrary and must
// never change.
const ingestLock = 7_305_011_990_415

const shareIngestLockSQL = `SELECT pg_advisory_xact_lock_shared(@lock)`

// maxStatement bounds the bytes of records in one statement. PostgreSQL takes at
// most 1 GiB in one parameter, and both sides hold it several times over.
const maxStatement = 32 << 20

// StoreArrivals stores dead letters and returns how many were new. One whose
// Source is known is skipped, also when its message has been archived. The order
// of the slice becomes the order of Seq. It is one round trip, or one for each
// 32 MiB of records. Messages that come back are counted for the bulk retry that sent them, in
// the same transaction. After an error a part may be stored; giving the same slice
// again stores the rest.
func (s *Store) StoreArrivals(ctx context.Context, arrivals []dlq.Arrival) (stored int, err error) {
	for len(arrivals) > 0 {
		n, size := 0, 0
		for n < len(arrivals) && (n == 0 || size < maxStatement) {
			size += sizeOf(&arrivals[n])
			n++
		}
		if n > 1 && size >= maxStatement {
			n-- // the last one was too much
		}
		count, err := s.storeBatch(ctx, arrivals[:n])
		stored += count
		if err != nil {
			return stored, err
		}
		arrivals = arrivals[n:]
	}
	return stored, nil
}

func sizeOf(a *dlq.Arrival) int {
	size := len(a.Record.Key) + len(a.Record.Value) + len(a.Payload) + len(a.StackTrace)
	for _, h := range a.Record.Headers {
		size += len(h.Key) + len(h.Value)
	}
	return size
}

// storeBatch stores the batch at once. When the server refuses the data of some
// row, which it does not name, it stores them one by one, and the refused ones
// without their searchable view. Their bytes cannot be refused.
func (s *Store) storeBatch(ctx context.Context, arrivals []dlq.Arrival) (stored int, err error) {
	count, err := s.storeOnce(ctx, arrivals)
	if !isRowsOwnFault(err) {
		return count, err
	}
	for _, a := range arrivals {
		count, err := s.storeOnce(ctx, []dlq.Arrival{a})
		if isRowsOwnFault(err) && a.Payload != nil {
			a.Payload = nil
			count, err = s.storeOnce(ctx, []dlq.Arrival{a})
		}
		stored += count
		if err != nil {
			return stored, fmt.Errorf("record at partition %d, offset %d of %s: %w", a.Source.Partition, a.Source.Offset, a.DLQTopic, err)
		}
	}
	return stored, nil
}

func (s *Store) storeOnce(ctx context.Context, arrivals []dlq.Arrival) (stored int, err error) {
	args := storeArgs(arrivals)
	err = s.batch(ctx, "store arrivals", func(batch *pgx.Batch) {
		batch.Queue(shareIngestLockSQL, pgx.NamedArgs{"lock": int64(ingestLock)})
		batch.Queue(storeSQL, args).Exec(func(tag pgconn.CommandTag) error {
			stored = int(tag.RowsAffected())
			return nil
		})
	})
	return stored, err
}

// storeArgs are the columns of storeSQL.
func storeArgs(arrivals []dlq.Arrival) pgx.NamedArgs {
	storable := make([]dlq.Arrival, len(arrivals))
	for i := range arrivals {
		storable[i] = arrivals[i].Storable()
	}
	return pgx.NamedArgs{
		"ids":               column(storable, func(a *dlq.Arrival) [16]byte { return a.ID }),
		"dlq_topics":        column(storable, func(a *dlq.Arrival) string { return a.DLQTopic }),
		"original_topics":   column(storable, func(a *dlq.Arrival) string { return a.Origin.Topic }),
		"error_messages":    column(storable, func(a *dlq.Arrival) string { return a.ErrorMessage }),
		"error_classes":     column(storable, func(a *dlq.Arrival) string { return a.ErrorClass }),
		"retry_counts":      column(storable, func(a *dlq.Arrival) int { return a.RetryCount }),
		"max_retries":       column(storable, func(a *dlq.Arrival) int { return a.MaxRetries }),
		"payloads":          column(storable, func(a *dlq.Arrival) *string { return optional(string(a.Payload), a.Payload == nil) }),
		"statuses":          column(storable, func(a *dlq.Arrival) string { return string(a.Status()) }),
		"key_hashes":        column(storable, func(a *dlq.Arrival) int32 { return dlq.KeyHash(a.Record.Key, a.ID) }),
		"previous_ids":      column(storable, func(a *dlq.Arrival) *[16]byte { return optional(uuid(a.PreviousID), a.PreviousID.IsZero()) }),
		"topic_ids":         column(storable, func(a *dlq.Arrival) [16]byte { return a.Source.TopicID }),
		"partitions":        column(storable, func(a *dlq.Arrival) int32 { return a.Source.Partition }),
		"offsets":           column(storable, func(a *dlq.Arrival) int64 { return a.Source.Offset }),
		"keys":              column(storable, func(a *dlq.Arrival) []byte { return a.Record.Key }),
		"values":            column(storable, func(a *dlq.Arrival) []byte { return a.Record.Value }),
		"headers":           column(storable, func(a *dlq.Arrival) []byte { return encodeHeaders(a.Record.Headers) }),
		"timestamps":        column(storable, func(a *dlq.Arrival) *time.Time { return optional(a.Record.Timestamp, a.Record.Timestamp.IsZero()) }),
		"origin_partitions": column(storable, func(a *dlq.Arrival) *int32 { return a.Origin.Partition }),
		"origin_offsets":    column(storable, func(a *dlq.Arrival) *int64 { return a.Origin.Offset }),
		"families":          column(storable, func(a *dlq.Arrival) string { return a.Origin.Family }),
		"stack_traces":      column(storable, func(a *dlq.Arrival) string { return a.StackTrace }),
	}
}

func column[T any](arrivals []dlq.Arrival, value func(*dlq.Arrival) T) []T {
	values := make([]T, len(arrivals))
	for i := range arrivals {
		values[i] = value(&arrivals[i])
	}
	return values
}

// detailSQL reads a message with its body. A row that another program has put in,
// with the documented columns only, has none: its payload is all there is.
const detailSQL = `
SELECT m.id, m.seq, m.original_topic, m.dlq_topic, m.error_message, m.error_class, m.retry_count, m.max_retries, m.payload,
	m.status, m.created_at, m.updated_at, m.last_retry_at, m.workflow_id, m.owner_token, m.previous_id,
	b.topic_id, b.partition, b.record_offset,
	b.key, CASE WHEN b.message_id IS NULL THEN convert_to(m.payload::text, 'UTF8') ELSE b.value END, b.headers, b.record_timestamp,
	b.origin_partition, b.origin_offset, COALESCE(b.origin_family, ''), COALESCE(b.stack_trace, '')
FROM dlq.dlq_messages m
LEFT JOIN dlq.dlq_message_bodies b ON b.message_id = m.id
WHERE m.id = @id`

const attemptsSQL = `
SELECT number, workflow_id, owner_token, started_at, ended_at, result, category, error
FROM dlq.dlq_retry_attempts
WHERE message_id = @id
ORDER BY id`

// Detail returns everything known of a message, or dlq.ErrNotFound.
func (s *Store) Detail(ctx context.Context, id dlq.ID) (dlq.Detail, error) {
	var details []dlq.Detail
	var attempts []dlq.Attempt
	args := pgx.NamedArgs{"id": uuid(id)}
	err := s.batch(ctx, "read message", func(batch *pgx.Batch) {
		queue(batch, &details, scanDetail, detailSQL, args)
		queue(batch, &attempts, scanAttempt, attemptsSQL, args)
	})
	if err == nil && len(details) == 0 {
		err = dlq.MessageNotFound(id)
	}
	if err != nil {
		return dlq.Detail{}, err
	}
	details[0].Attempts = attempts
	return details[0], nil
}

func scanDetail(row pgx.CollectableRow) (dlq.Detail, error) {
	var d dlq.Detail
	var topic *[16]byte
	var partition *int32
	var offset *int64
	var headers []byte
	var timestamp *time.Time
	targets, done := messageTargets(&d.Message)
	err := row.Scan(append(targets, &topic, &partition, &offset, &d.Record.Key, &d.Record.Value, &headers, optionalInstant{&timestamp},
		&d.Failure.Origin.Partition, &d.Failure.Origin.Offset, &d.Failure.Origin.Family, &d.Failure.StackTrace)...)
	if err != nil {
		return dlq.Detail{}, err
	}
	done()
	if topic != nil && partition != nil && offset != nil {
		d.Source = dlq.Source{TopicID: *topic, Partition: *partition, Offset: *offset}
	}
	if timestamp != nil {
		d.Record.Timestamp = *timestamp
	}
	d.Failure.Origin.Topic, d.Failure.ErrorMessage, d.Failure.ErrorClass = d.OriginalTopic, d.ErrorMessage, d.ErrorClass
	d.Record.Headers, err = decodeHeaders(headers)
	return d, err
}

func scanAttempt(row pgx.CollectableRow) (a dlq.Attempt, err error) {
	err = row.Scan(&a.Number, &a.Owner.WorkflowID, &a.Owner.Token, instant{&a.StartedAt}, instant{&a.EndedAt},
		(*string)(&a.Result), (*string)(&a.Category), &a.Error)
	return a, err
}
