package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// storeSQL stores a batch in one statement and moves the positions of the partitions that
// it was read from. It does nothing unless each position is the one that the caller started
// from.
//
// A message is new if it has no body, so rows are inserted only for bodies that were
// inserted. When another transaction stores the same message at the same time, the primary
// key refuses this batch, and the batch runs again. That is rare; ON CONFLICT would avoid
// it, but makes every row a seventh more expensive. Bodies are inserted in the order of
// their ids, so two programs with the same records lock them in the same order. Messages
// are inserted in the order of the batch, which becomes the order of seq. The planner does
// not know the number of rows in a batch; the CASE keeps it from a nested loop over the
// batch.
//
// The statement also counts the messages that came back, for the bulk retry that sent them
// last: the one whose id is the owner's token. It locks these jobs after all bodies are
// inserted, and in the order of their ids, so that two programs do not deadlock.
const storeSQL = `
WITH advance AS (
	SELECT *
	FROM unnest(@advance_topic_ids::uuid[], @advance_partitions::int[], @advance_topics::text[], @froms::bigint[],
		@nexts::bigint[], @epochs::int[], @losts::bigint[]) AS a (topic_id, partition, topic, from_offset, next_offset, leader_epoch, lost)
), position AS MATERIALIZED (
	SELECT o.topic_id, o.partition
	FROM dlq.dlq_ingest_offsets o
	JOIN advance a ON o.topic_id = a.topic_id AND o.partition = a.partition
	WHERE o.next_offset = a.from_offset
	ORDER BY o.topic_id, o.partition
	FOR UPDATE OF o
), positions AS MATERIALIZED (
	SELECT (SELECT count(*) FROM position) = (SELECT count(*) FROM advance) AS unchanged
), advanced AS (
	UPDATE dlq.dlq_ingest_offsets o
	SET topic = a.topic, next_offset = a.next_offset, leader_epoch = a.leader_epoch, lost = o.lost + a.lost,
		lost_at = CASE WHEN a.lost > 0 THEN now() ELSE o.lost_at END, updated_at = now()
	FROM advance a
	WHERE o.topic_id = a.topic_id AND o.partition = a.partition AND (SELECT unchanged FROM positions)
), arrival AS MATERIALIZED (
	SELECT *
	FROM unnest(@ids::uuid[], @dlq_topics::text[], @original_topics::text[], @error_messages::text[], @error_classes::text[],
		@retry_counts::int[], @max_retries::int[], @payloads::text[], @statuses::text[], @key_hashes::int[], @previous_ids::uuid[],
		@topic_ids::uuid[], @partitions::int[], @offsets::bigint[], @keys::bytea[], @values::bytea[], @headers::bytea[],
		@timestamps::timestamptz[], @origin_partitions::int[], @origin_offsets::bigint[], @families::text[], @stack_traces::text[],
		@origin_timestamps::timestamptz[], @consumer_groups::text[], @cause_classes::text[], @origin_attempts::int[],
		@trace_ids::text[], @correlation_ids::text[], @suspicions::text[], @resolutions::text[])
	WITH ORDINALITY AS a (id, dlq_topic, original_topic, error_message, error_class,
		retry_count, max_retries, payload, status, key_hash, previous_id,
		topic_id, partition, record_offset, key, value, headers,
		record_timestamp, origin_partition, origin_offset, origin_family, stack_trace,
		origin_timestamp, consumer_group, cause_class, origin_attempts, trace_id, correlation_id, suspicion, resolution, place)
	WHERE (SELECT unchanged FROM positions)
), body AS (
	INSERT INTO dlq.dlq_message_bodies (message_id, topic_id, partition, record_offset, key, key_hash, value, headers,
		record_timestamp, origin_partition, origin_offset, origin_family, stack_trace,
		origin_timestamp, consumer_group, cause_class, origin_attempts, trace_id, correlation_id, suspicion)
	SELECT id, topic_id, partition, record_offset, key, CASE WHEN key IS NOT NULL THEN key_hash END, value, headers,
		record_timestamp, origin_partition, origin_offset, origin_family, stack_trace,
		origin_timestamp, consumer_group, cause_class, origin_attempts, trace_id, correlation_id, suspicion
	FROM arrival
	WHERE NOT EXISTS (SELECT FROM dlq.dlq_message_bodies b WHERE b.message_id = arrival.id OFFSET 0)
	ORDER BY id
	RETURNING message_id
), came_back AS (
	SELECT CASE WHEN p.owner_token ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' THEN p.owner_token::uuid END AS bulk_id,
		count(DISTINCT a.id) AS n
	FROM arrival a
	CROSS JOIN LATERAL (
		SELECT m.owner_token FROM dlq.dlq_messages m WHERE m.id = a.previous_id
		UNION ALL
		SELECT m.owner_token FROM dlq.dlq_messages_archive m WHERE m.id = a.previous_id
		LIMIT 1
	) AS p
	WHERE a.previous_id IS NOT NULL AND CASE WHEN a.id IN (SELECT message_id FROM body) THEN true ELSE false END
	GROUP BY 1
), job AS MATERIALIZED (
	SELECT j.id, came_back.n
	FROM came_back
	JOIN dlq.dlq_bulk_retries j ON j.id = came_back.bulk_id
	ORDER BY j.id
	FOR UPDATE OF j
), counted AS (
	UPDATE dlq.dlq_bulk_retries j SET came_back = j.came_back + job.n FROM job WHERE j.id = job.id
), stored AS (
	INSERT INTO dlq.dlq_messages (id, dlq_topic, original_topic, error_message, error_class, retry_count, max_retries, payload,
		status, key_hash, previous_id, size, resolution, suspicious)
	SELECT a.id, a.dlq_topic, a.original_topic, a.error_message, a.error_class, a.retry_count, a.max_retries, a.payload::jsonb,
		a.status, a.key_hash, a.previous_id, COALESCE(octet_length(a.key), 0) + COALESCE(octet_length(a.value), 0) + octet_length(a.headers),
		a.resolution, a.suspicion <> ''
	FROM arrival a
	WHERE CASE WHEN a.id IN (SELECT message_id FROM body) THEN true ELSE false END
		AND NOT EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.id = a.id OFFSET 0)
	ORDER BY a.place
	RETURNING id, dlq_topic, seq, retry_count, max_retries, error_message, resolution
), exhausted AS (
	INSERT INTO dlq.dlq_exhausted_outbox (dlq_topic, seq, message_id, retry_count, max_retries, error)
	SELECT dlq_topic, seq, id, retry_count, max_retries, error_message
	FROM stored
	WHERE @outbox::bool AND resolution = 'exhausted' AND dlq_topic <> ''
)
SELECT (SELECT unchanged FROM positions), ARRAY(SELECT id FROM stored)`

// ingestLock is the advisory lock that ingest holds shared while it stores, and that the
// creation of a bulk retry holds exclusively while it reads its upper bound. PostgreSQL
// assigns the order of arrival before the commit. Without the lock, a message below the
// upper bound could become visible after the count. A program that inserts messages itself
// is not covered unless it takes the lock too. The number is arbitrary and must never
// change.
const ingestLock = 7_305_011_990_415

const shareIngestLockSQL = `SELECT pg_advisory_xact_lock_shared(@lock)`

// maxStatement is the maximum size in bytes of the records in one statement. PostgreSQL
// accepts at most 1 GiB in one parameter, and both the client and the server keep several
// copies.
const maxStatement = 32 << 20

// StoreArrivals stores dead letters and returns how many were new. A known id is skipped,
// also when its message has been archived. The order of the slice becomes the order of Seq.
// It takes one round trip, or one for each 32 MiB of records. Messages that came back are
// counted for the bulk retry that sent them, in the same transaction. After an error some
// of the messages may be stored; a call with the same slice stores the rest.
func (s *Store) StoreArrivals(ctx context.Context, arrivals []dlq.Arrival) (stored int, err error) {
	for len(arrivals) > 0 {
		n, size := 0, 0
		for n < len(arrivals) && (n == 0 || size < maxStatement) {
			size += sizeOf(&arrivals[n])
			n++
		}
		if n > 1 && size >= maxStatement {
			n-- // the last one exceeded the size
		}
		ids, err := s.Ingest(ctx, arrivals[:n], nil)
		stored += len(ids)
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

// Ingest stores dead letters as StoreArrivals does, and moves the positions of the
// partitions that they were read from, all in one transaction. It returns the ids of the
// new messages. It returns dlq.ErrPositionMoved when a position is not the one that its
// advance starts from.
//
// When the server refuses the data of a row, it does not name the row. Then each payload is
// tried alone, and refused payloads are left out. The bytes of a record are never refused.
func (s *Store) Ingest(ctx context.Context, arrivals []dlq.Arrival, advances []dlq.Advance) (stored []dlq.ID, err error) {
	if len(arrivals) == 0 && len(advances) == 0 {
		return nil, nil
	}
	stored, err = s.ingest(ctx, arrivals, advances)
	if !isDataError(err) {
		return stored, err
	}
	acceptable := slices.Clone(arrivals)
	for i := range acceptable {
		_, _, err := queryOne(ctx, s, "try payload", pgx.RowTo[bool], payloadSQL, pgx.NamedArgs{"payload": string(acceptable[i].Payload)})
		if isDataError(err) {
			acceptable[i].Payload = nil
		} else if err != nil {
			return nil, err
		}
	}
	return s.ingest(ctx, acceptable, advances)
}

// payloadSQL fails for a payload that JSONB refuses.
const payloadSQL = `SELECT NULLIF(@payload::text, '')::jsonb IS NULL`

func (s *Store) ingest(ctx context.Context, arrivals []dlq.Arrival, advances []dlq.Advance) (stored []dlq.ID, err error) {
	args := storeArgs(withoutDuplicates(arrivals), advances)
	args["outbox"] = s.Outbox
	var unchanged bool
	var ids [][16]byte
	err = s.batch(ctx, "store arrivals", func(batch *pgx.Batch) {
		batch.Queue(shareIngestLockSQL, pgx.NamedArgs{"lock": int64(ingestLock)})
		batch.Queue(byIndexSQL)
		batch.Queue(storeSQL, args).QueryRow(func(row pgx.Row) error { return row.Scan(&unchanged, &ids) })
	})
	if err == nil && !unchanged {
		err = fmt.Errorf("store arrivals: %w", dlq.ErrPositionMoved)
	}
	for _, id := range ids {
		stored = append(stored, id)
	}
	return stored, err
}

// withoutDuplicates keeps the first arrival with each id.
func withoutDuplicates(arrivals []dlq.Arrival) []dlq.Arrival {
	seen := make(map[dlq.ID]bool, len(arrivals))
	for i := range arrivals {
		seen[arrivals[i].ID] = true
	}
	if len(seen) == len(arrivals) {
		return arrivals
	}
	return slices.DeleteFunc(slices.Clone(arrivals), func(a dlq.Arrival) bool {
		first := seen[a.ID]
		seen[a.ID] = false
		return !first
	})
}

// storeArgs are the parameters of storeSQL, one slice for each column.
func storeArgs(arrivals []dlq.Arrival, advances []dlq.Advance) pgx.NamedArgs {
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
		"payloads":          column(storable, func(a *dlq.Arrival) *string { return nilIf(string(a.Payload), a.Payload == nil) }),
		"statuses":          column(storable, func(a *dlq.Arrival) string { return string(a.Status()) }),
		"key_hashes":        column(storable, func(a *dlq.Arrival) int32 { return dlq.KeyHash(a.Record.Key, a.ID) }),
		"previous_ids":      column(storable, func(a *dlq.Arrival) *[16]byte { return nilIf(uuid(a.PreviousID), a.PreviousID.IsZero()) }),
		"topic_ids":         column(storable, func(a *dlq.Arrival) [16]byte { return a.Source.TopicID }),
		"partitions":        column(storable, func(a *dlq.Arrival) int32 { return a.Source.Partition }),
		"offsets":           column(storable, func(a *dlq.Arrival) int64 { return a.Source.Offset }),
		"keys":              column(storable, func(a *dlq.Arrival) []byte { return a.Record.Key }),
		"values":            column(storable, func(a *dlq.Arrival) []byte { return a.Record.Value }),
		"headers":           column(storable, func(a *dlq.Arrival) []byte { return encodeHeaders(a.Record.Headers) }),
		"timestamps":        column(storable, func(a *dlq.Arrival) *time.Time { return nilIf(a.Record.Timestamp, a.Record.Timestamp.IsZero()) }),
		"origin_partitions": column(storable, func(a *dlq.Arrival) *int32 { return a.Origin.Partition }),
		"origin_offsets":    column(storable, func(a *dlq.Arrival) *int64 { return a.Origin.Offset }),
		"families":          column(storable, func(a *dlq.Arrival) string { return a.Origin.Family }),
		"stack_traces":      column(storable, func(a *dlq.Arrival) string { return a.StackTrace }),
		"origin_timestamps": column(storable, func(a *dlq.Arrival) *time.Time { return nilIf(a.Origin.Timestamp, a.Origin.Timestamp.IsZero()) }),
		"consumer_groups":   column(storable, func(a *dlq.Arrival) string { return a.Origin.ConsumerGroup }),
		"cause_classes":     column(storable, func(a *dlq.Arrival) string { return a.CauseClass }),
		"origin_attempts":   column(storable, func(a *dlq.Arrival) *int { return nilIf(a.Attempts, a.Attempts == 0) }),
		"trace_ids":         column(storable, func(a *dlq.Arrival) string { return a.TraceID }),
		"correlation_ids":   column(storable, func(a *dlq.Arrival) string { return a.CorrelationID }),
		"suspicions":        column(storable, func(a *dlq.Arrival) string { return a.Suspicion }),
		"resolutions":       column(storable, func(a *dlq.Arrival) *string { return nilIf(string(a.Resolution()), a.Resolution() == "") }),

		"advance_topic_ids":  column(advances, func(a *dlq.Advance) [16]byte { return a.TopicID }),
		"advance_partitions": column(advances, func(a *dlq.Advance) int32 { return a.Number }),
		"advance_topics":     column(advances, func(a *dlq.Advance) string { return dlq.StorableText(a.Topic) }),
		"froms":              column(advances, func(a *dlq.Advance) int64 { return a.From.Next }),
		"nexts":              column(advances, func(a *dlq.Advance) int64 { return a.To.Next }),
		"epochs":             column(advances, func(a *dlq.Advance) int32 { return a.To.Epoch }),
		"losts":              column(advances, func(a *dlq.Advance) int64 { return a.Lost }),
	}
}

func column[R, T any](rows []R, value func(*R) T) []T {
	values := make([]T, len(rows))
	for i := range rows {
		values[i] = value(&rows[i])
	}
	return values
}

// startPositionsSQL gives each partition without a position one at its start. It writes
// nothing when all have one.
const startPositionsSQL = `
INSERT INTO dlq.dlq_ingest_offsets (topic_id, partition, topic, next_offset, leader_epoch)
SELECT w.topic_id, w.partition, '', -1, -1
FROM unnest(@topic_ids::uuid[], @partitions::int[]) AS w (topic_id, partition)
WHERE NOT EXISTS (SELECT FROM dlq.dlq_ingest_offsets o WHERE o.topic_id = w.topic_id AND o.partition = w.partition)
ORDER BY w.topic_id, w.partition
ON CONFLICT DO NOTHING`

const positionsSQL = `
SELECT COALESCE(o.next_offset, -1), COALESCE(o.leader_epoch, -1)
FROM unnest(@topic_ids::uuid[], @partitions::int[]) WITH ORDINALITY AS w (topic_id, partition, place)
LEFT JOIN dlq.dlq_ingest_offsets o ON o.topic_id = w.topic_id AND o.partition = w.partition
ORDER BY w.place`

// Positions returns how far each partition has been ingested, in the order of the
// partitions. A partition without a position gets one at its start.
func (s *Store) Positions(ctx context.Context, partitions []dlq.Partition) (positions []dlq.Position, err error) {
	if len(partitions) == 0 {
		return nil, nil
	}
	args := pgx.NamedArgs{
		"topic_ids":  column(partitions, func(p *dlq.Partition) [16]byte { return p.TopicID }),
		"partitions": column(partitions, func(p *dlq.Partition) int32 { return p.Number }),
	}
	err = s.batch(ctx, "read positions", func(batch *pgx.Batch) {
		batch.Queue(startPositionsSQL, args)
		queueQuery(batch, &positions, pgx.RowToStructByPos[dlq.Position], positionsSQL, args)
	})
	return positions, err
}

// detailSQL reads a message with its body. A row that another program inserted with the
// documented columns only has no body. Its payload is returned as the value.
const detailSQL = `
SELECT m.id, m.seq, m.original_topic, m.dlq_topic, m.error_message, m.error_class, m.retry_count, m.max_retries, m.payload,
	m.status, m.created_at, m.updated_at, m.last_retry_at, m.workflow_id, m.owner_token, m.previous_id,
	m.resolution, m.target_partition, m.target_offset, m.suspicious,
	b.topic_id, b.partition, b.record_offset,
	b.key, CASE WHEN b.message_id IS NULL THEN convert_to(m.payload::text, 'UTF8') ELSE b.value END, b.headers, b.record_timestamp,
	b.origin_partition, b.origin_offset, COALESCE(b.origin_family, ''), COALESCE(b.stack_trace, ''),
	b.origin_timestamp, COALESCE(b.consumer_group, ''), COALESCE(b.cause_class, ''), COALESCE(b.origin_attempts, 0),
	COALESCE(b.trace_id, ''), COALESCE(b.correlation_id, ''), COALESCE(b.suspicion, '')
FROM dlq.dlq_messages m
LEFT JOIN dlq.dlq_message_bodies b ON b.message_id = m.id
WHERE m.id = @id`

const attemptsSQL = `
SELECT number, workflow_id, owner_token, started_at, ended_at, result, category, error
FROM dlq.dlq_retry_attempts
WHERE message_id = @id
ORDER BY id`

// Detail returns all that is stored of a message, or dlq.ErrNotFound.
func (s *Store) Detail(ctx context.Context, id dlq.ID) (dlq.Detail, error) {
	var details []dlq.Detail
	var attempts []dlq.Attempt
	args := pgx.NamedArgs{"id": uuid(id)}
	err := s.batch(ctx, "read message", func(batch *pgx.Batch) {
		queueQuery(batch, &details, scanDetail, detailSQL, args)
		queueQuery(batch, &attempts, scanAttempt, attemptsSQL, args)
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
	var timestamp, originTimestamp *time.Time
	targets, done := messageTargets(&d.Message)
	f := &d.Failure
	err := row.Scan(append(targets, &topic, &partition, &offset, &d.Record.Key, &d.Record.Value, &headers, optionalInstant{&timestamp},
		&f.Origin.Partition, &f.Origin.Offset, &f.Origin.Family, &f.StackTrace,
		optionalInstant{&originTimestamp}, &f.Origin.ConsumerGroup, &f.CauseClass, &f.Attempts,
		&f.TraceID, &f.CorrelationID, &f.Suspicion)...)
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
	if originTimestamp != nil {
		f.Origin.Timestamp = *originTimestamp
	}
	f.Origin.Topic, f.ErrorMessage, f.ErrorClass = d.OriginalTopic, d.ErrorMessage, d.ErrorClass
	d.Record.Headers, err = decodeHeaders(headers)
	return d, err
}

func scanAttempt(row pgx.CollectableRow) (a dlq.Attempt, err error) {
	err = row.Scan(attemptTargets(&a)...)
	return a, err
}

// attemptTargets are the scan targets of a row of attemptsSQL.
func attemptTargets(a *dlq.Attempt) []any {
	return []any{&a.Number, &a.Owner.WorkflowID, &a.Owner.Token, instant{&a.StartedAt}, instant{&a.EndedAt},
		(*string)(&a.Result), (*string)(&a.Category), &a.Error}
}
