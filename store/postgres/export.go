package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// exportSizesSQL reads the sizes of messages, and no stored values but payloads that are not the value itself. A row of
// another program has its payload as value too.
// Each lateral LIMIT makes the server look the row up, because a join might read the whole table.
const exportSizesSQL = `
SELECT m.id,
	COALESCE(octet_length(b.key)::bigint, 0) + COALESCE(octet_length(b.value), 0) + COALESCE(octet_length(b.headers), 0)
		+ COALESCE(octet_length(b.stack_trace), 0) + octet_length(m.error_message)
		+ CASE WHEN b.value IS NULL OR b.schema_id IS NOT NULL THEN 2 * COALESCE(octet_length(m.payload::text), 0) ELSE 0 END,
	1024::bigint + octet_length(m.error_class) + COALESCE(octet_length(b.cause_class)::bigint + octet_length(b.consumer_group)
			+ octet_length(b.trace_id) + octet_length(b.correlation_id) + octet_length(b.suspicion) + octet_length(b.origin_family)
			+ COALESCE(octet_length(b.decode_error), 0), 0)
		+ (SELECT COALESCE(sum(1024 + octet_length(a.error)), 0)::bigint FROM dlq.dlq_retry_attempts a WHERE a.message_id = m.id)
FROM unnest(@ids::uuid[]) WITH ORDINALITY AS chosen (id, place)
CROSS JOIN LATERAL (SELECT * FROM dlq.dlq_messages WHERE id = chosen.id LIMIT 1) AS m
LEFT JOIN LATERAL (SELECT * FROM dlq.dlq_message_bodies WHERE message_id = m.id LIMIT 1) AS b ON true
ORDER BY chosen.place`

// ExportPage chooses the next messages of an export. It reads their sizes only. A topic without messages is an empty page.
func (s *Store) ExportPage(ctx context.Context, q dlq.ListQuery) (dlq.ExportPage, error) {
	q.OldestFirst, q.IsBare = true, true
	listed, err := s.List(ctx, q)
	if err != nil {
		return dlq.ExportPage{}, err
	}
	var page dlq.ExportPage
	n := len(listed.Messages)
	switch {
	case !listed.HasNext:
	case listed.Searched != nil:
		page.Next = listed.Searched.Last
	case n > 0:
		page.Next = new(listed.Messages[n-1].Keyset())
	}
	if n == 0 {
		return page, nil
	}
	page.Messages, err = s.ExportSizes(ctx, column(listed.Messages, func(m *dlq.Message) dlq.ID { return m.ID }))
	return page, err
}

// ExportSizes returns how much Export would read of messages, in the order of their ids. Messages that do not exist are absent.
func (s *Store) ExportSizes(ctx context.Context, ids []dlq.ID) ([]dlq.Chosen, error) {
	return queryAll(ctx, s, "weigh messages", scanChosen, exportSizesSQL, pgx.NamedArgs{"ids": uuids(ids)})
}

func scanChosen(row pgx.CollectableRow) (c dlq.Chosen, err error) {
	err = row.Scan((*[16]byte)(&c.ID), &c.Bytes, &c.Text)
	return c, err
}

// exportSQL is detailSQL for several messages, with the topic of the message that each was before. The payload follows
// from the value, unless a schema has decoded it or another program has written the row.
const exportSQL = `
SELECT m.id, m.seq, m.original_topic, m.dlq_topic, m.error_message, m.error_class, m.retry_count, m.max_retries,
	CASE WHEN b.value IS NULL OR b.schema_id IS NOT NULL THEN m.payload END,
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
	COALESCE((SELECT dlq_topic FROM dlq.dlq_messages WHERE id = m.previous_id),
		(SELECT dlq_topic FROM dlq.dlq_messages_archive WHERE id = m.previous_id), '')
FROM unnest(@ids::uuid[]) WITH ORDINALITY AS chosen (id, place)
CROSS JOIN LATERAL (SELECT * FROM dlq.dlq_messages WHERE id = chosen.id LIMIT 1) AS m
LEFT JOIN LATERAL (SELECT * FROM dlq.dlq_message_bodies WHERE message_id = m.id LIMIT 1) AS b ON true
ORDER BY chosen.place`

const exportAttemptsSQL = `
SELECT message_id, number, workflow_id, owner_token, started_at, ended_at, result, category, error, target_partition, target_offset
FROM dlq.dlq_retry_attempts
WHERE message_id = ANY (@ids::uuid[])
ORDER BY id`

// Export returns all that is stored of messages, in the order of their ids. Messages that do not exist any more are absent.
func (s *Store) Export(ctx context.Context, ids []dlq.ID) (exported []dlq.Exported, err error) {
	args := pgx.NamedArgs{"ids": uuids(ids)}
	err = s.batch(ctx, "export messages", func(batch *pgx.Batch) {
		queueQuery(batch, &exported, scanExported, exportSQL, args)
		batch.Queue(exportAttemptsSQL, args).Query(func(rows pgx.Rows) error { return addAttempts(rows, exported) })
	})
	return exported, err
}

func scanExported(row pgx.CollectableRow) (e dlq.Exported, err error) {
	e.Detail, err = scanDetailWith(row, &e.PreviousTopic)
	return e, err
}

func addAttempts(rows pgx.Rows, exported []dlq.Exported) error {
	var places map[dlq.ID]int
	for rows.Next() {
		if places == nil { // most messages have no attempts
			places = make(map[dlq.ID]int, len(exported))
			for i := range exported {
				places[exported[i].ID] = i
			}
		}
		var id dlq.ID
		var a dlq.Attempt
		if err := rows.Scan(append([]any{(*[16]byte)(&id)}, attemptTargets(&a)...)...); err != nil {
			return err
		}
		if i, ok := places[id]; ok {
			exported[i].Attempts = append(exported[i].Attempts, a)
		}
	}
	return rows.Err()
}
