package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"dlqmanager/dlq"
)

func column[R, T any](rows []R, value func(*R) T) []T {
	values := make([]T, len(rows))
	for i := range rows {
		values[i] = value(&rows[i])
	}
	return values
}

// startPositionsSQL adds missing positions, at the start of their partitions. Often it writes nothing.
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
// partitions. A partition without a position gets a position at its start.
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

// weightsSQL reads the sizes of messages. It reads only those payloads that Details would read, and no other values. Each
// LIMIT makes the server look up the row by its id, because a join might read the whole table.
const weightsSQL = `
SELECT m.id, m.dlq_topic,
	COALESCE(octet_length(b.key)::bigint, 0) + CASE WHEN b.message_id IS NULL THEN p.size ELSE COALESCE(octet_length(b.value), 0) END,
	p.size,
	octet_length(m.error_message)::bigint + COALESCE(octet_length(b.headers)::bigint + octet_length(b.stack_trace), 0),
	1024::bigint + octet_length(m.error_class) + COALESCE(octet_length(b.cause_class)::bigint + octet_length(b.consumer_group)
			+ octet_length(b.trace_id) + octet_length(b.correlation_id) + octet_length(b.suspicion) + octet_length(b.origin_family)
			+ COALESCE(octet_length(b.decode_error), 0), 0)
		+ (SELECT COALESCE(sum(1024 + octet_length(a.error)), 0)::bigint FROM dlq.dlq_retry_attempts a WHERE a.message_id = m.id)
FROM unnest(@ids::uuid[]) WITH ORDINALITY AS chosen (id, place)
CROSS JOIN LATERAL (SELECT * FROM dlq.dlq_messages WHERE id = chosen.id LIMIT 1) AS m
LEFT JOIN LATERAL (SELECT * FROM dlq.dlq_message_bodies WHERE message_id = m.id LIMIT 1) AS b ON true
CROSS JOIN LATERAL (
	SELECT CASE WHEN @all_payloads::bool OR b.value IS NULL OR b.schema_id IS NOT NULL THEN COALESCE(octet_length(m.payload::text), 0)
		ELSE 0 END AS size OFFSET 0
) AS p
ORDER BY chosen.place`

// Weigh returns how much Details would read, in the order of the ids. Messages that do not exist are absent.
func (s *Store) Weigh(ctx context.Context, q dlq.DetailQuery) ([]dlq.Weight, error) {
	sql, args := detailsOf(weightsSQL, &q)
	return queryAll(ctx, s, "weigh messages", pgx.RowToStructByPos[dlq.Weight], sql, args)
}

// detailsOf puts a query into a statement about details.
func detailsOf(sql string, q *dlq.DetailQuery) (string, pgx.NamedArgs) {
	if q.Archived {
		sql = archived(sql)
	}
	return sql, pgx.NamedArgs{"ids": uuids(q.IDs), "all_payloads": q.AllPayloads}
}

// detailsSQL reads messages with their bodies. A row that another program inserted with only the documented columns has no body,
// and its payload is the value. An export reads a payload only if a schema has decoded it or another program has written the
// row: other payloads follow from the value. The previous message of an archived message may be in dlq_messages. So that name
// ends a line, where the function archived does not replace it.
const detailsSQL = `
SELECT m.id, m.seq, m.original_topic, m.dlq_topic, m.error_message, m.error_class, m.retry_count, m.max_retries,
	CASE WHEN @all_payloads::bool OR b.value IS NULL OR b.schema_id IS NOT NULL THEN m.payload END,
	m.status, m.created_at, m.updated_at, m.last_retry_at, m.workflow_id, m.owner_token, m.previous_id,
	m.resolution, m.target_partition, m.target_offset, m.suspicious, m.group_id,
	b.topic_id, b.partition, b.record_offset,
	b.key, CASE WHEN b.message_id IS NULL THEN convert_to(m.payload::text, 'UTF8') ELSE b.value END, b.headers, b.record_timestamp,
	b.origin_partition, b.origin_offset, COALESCE(b.origin_family, ''), COALESCE(b.stack_trace, ''),
	b.origin_timestamp, COALESCE(b.consumer_group, ''), COALESCE(b.cause_class, ''), COALESCE(b.origin_attempts, 0),
	COALESCE(b.trace_id, ''), COALESCE(b.correlation_id, ''), COALESCE(b.suspicion, ''),
	COALESCE(b.schema_id, 0), COALESCE(b.schema_format, ''), COALESCE(b.schema_subject, ''), COALESCE(b.schema_version, 0),
	COALESCE(b.schema_message_type, ''), COALESCE(b.decode_error, ''),
	(SELECT original_id FROM dlq.dlq_edits WHERE copy_id = m.id), (SELECT copy_id FROM dlq.dlq_edits WHERE original_id = m.id),
	COALESCE((SELECT dlq_topic FROM dlq.dlq_messages
			WHERE id = m.previous_id),
		(SELECT dlq_topic FROM dlq.dlq_messages_archive WHERE id = m.previous_id), '')
FROM unnest(@ids::uuid[]) WITH ORDINALITY AS chosen (id, place)
CROSS JOIN LATERAL (SELECT * FROM dlq.dlq_messages WHERE id = chosen.id LIMIT 1) AS m
LEFT JOIN LATERAL (SELECT * FROM dlq.dlq_message_bodies WHERE message_id = m.id LIMIT 1) AS b ON true
ORDER BY chosen.place`

const attemptsSQL = `
SELECT message_id, number, workflow_id, owner_token, started_at, ended_at, result, category, error, target_partition, target_offset
FROM dlq.dlq_retry_attempts
WHERE message_id = ANY (@ids::uuid[])
ORDER BY id`

// Details returns all that is stored of messages, in the order of their ids. Messages that do not exist are absent.
func (s *Store) Details(ctx context.Context, q dlq.DetailQuery) (found []dlq.Detail, err error) {
	sql, args := detailsOf(detailsSQL, &q)
	err = s.batch(ctx, "read messages", func(batch *pgx.Batch) {
		queueQuery(batch, &found, scanDetail, sql, args)
		batch.Queue(attemptsSQL, args).Query(func(rows pgx.Rows) error { return addAttempts(rows, found) })
	})
	return found, err
}

func scanDetail(row pgx.CollectableRow) (dlq.Detail, error) {
	var d dlq.Detail
	var headers []byte
	f := &d.Failure
	targets := append(messageTargets(&d.Message), sourceTargets(&d.Source)...)
	targets = append(targets, &d.Record.Key, &d.Record.Value, &headers, instant{&d.Record.Timestamp},
		&f.Origin.Partition, &f.Origin.Offset, &f.Origin.Family, &f.StackTrace,
		instant{&f.Origin.Timestamp}, &f.Origin.ConsumerGroup, &f.CauseClass, &f.Attempts,
		&f.TraceID, &f.CorrelationID, &f.Suspicion,
		&d.Schema.ID, &d.Schema.Format, &d.Schema.Subject, &d.Schema.Version, &d.Schema.MessageType, &d.DecodeError,
		(*zeronull.UUID)(&d.Edits.From), (*zeronull.UUID)(&d.Edits.By), &d.PreviousTopic)
	if err := row.Scan(targets...); err != nil {
		return dlq.Detail{}, err
	}
	f.Origin.Topic, f.ErrorMessage, f.ErrorClass = d.OriginalTopic, d.ErrorMessage, d.ErrorClass
	d.Record.Headers, d.Unreadable = readHeaders(d.ID, headers)
	return d, nil
}

func addAttempts(rows pgx.Rows, found []dlq.Detail) error {
	byID := make(map[dlq.ID]*dlq.Detail, len(found))
	for i := range found {
		byID[found[i].ID] = &found[i]
	}
	for rows.Next() {
		var id dlq.ID
		var a dlq.Attempt
		if err := rows.Scan(append([]any{(*[16]byte)(&id)}, attemptTargets(&a)...)...); err != nil {
			return err
		}
		if d := byID[id]; d != nil { // nil if the message was deleted in between
			d.Attempts = append(d.Attempts, a)
		}
	}
	return rows.Err()
}

// sourceTargets are the scan targets of the columns of a source, which are NULL together.
func sourceTargets(s *dlq.Source) []any {
	return []any{(*zeronull.UUID)(&s.TopicID), (*zeronull.Int4)(&s.Partition), (*zeronull.Int8)(&s.Offset)}
}

func attemptTargets(a *dlq.Attempt) []any {
	return []any{&a.Number, &a.Owner.WorkflowID, &a.Owner.Token, instant{&a.StartedAt}, instant{&a.EndedAt},
		(*string)(&a.Result), (*string)(&a.Category), &a.Error, &a.TargetPartition, &a.TargetOffset}
}
