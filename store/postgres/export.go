package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// exportSizesSQL reads the sizes of messages, and no values but payloads that are not the value itself, as in
// rows of other programs. Each lateral LIMIT makes the server look the row up, because a join might read the
// whole table.
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
	return queryAll(ctx, s, "weigh messages", pgx.RowToStructByPos[dlq.Chosen], exportSizesSQL, pgx.NamedArgs{"ids": uuids(ids)})
}
