package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"dlqmanager/dlq"
)

// chainSQL reads the chain of a message, with a row for each attempt, from the messages and the archive. UNION
// drops ids that are in the chain already, so a cycle ends. Only a statement by hand can make a cycle. A message
// that was deleted still connects its successors.
//
// PostgreSQL evaluates a recursive query only as far as its rows are read. So LIMIT bounds the search. A row
// beyond the 1,000th shows that there are more messages. The nested loops (LATERAL with OFFSET 0 or LIMIT) keep
// the order of the search, which is by distance.
const chainSQL = `
WITH RECURSIVE chain (id) AS (
	SELECT known.id FROM ` + everyMessage + ` AS known WHERE known.id = @id
	UNION
	SELECT neighbour.id
	FROM chain
	CROSS JOIN LATERAL (
		SELECT m.previous_id AS id FROM ` + everyMessage + ` AS m WHERE m.id = chain.id AND m.previous_id IS NOT NULL
		UNION ALL
		SELECT m.id FROM ` + everyMessage + ` AS m WHERE m.previous_id = chain.id
	) AS neighbour
), found AS MATERIALIZED (
	SELECT m.*, row_number() OVER () AS place
	FROM (
		SELECT m.*
		FROM chain
		CROSS JOIN LATERAL (
			SELECT m.*, false AS archived FROM dlq.dlq_messages m WHERE m.id = chain.id
			UNION ALL
			SELECT m.*, true FROM dlq.dlq_messages_archive m WHERE m.id = chain.id
			LIMIT 1
		) AS m
		LIMIT 1001
	) AS m
)
SELECT (SELECT count(*) FROM found) > 1000,
	m.id, m.seq, m.original_topic, m.dlq_topic, '', '', m.retry_count, m.max_retries, NULL::jsonb,
	m.status, m.created_at, m.updated_at, m.last_retry_at, m.workflow_id, m.owner_token, m.previous_id,
	m.resolution, m.target_partition, m.target_offset, m.suspicious, m.group_id,
	m.archived,
	(SELECT original_id FROM dlq.dlq_edits WHERE copy_id = m.id), (SELECT copy_id FROM dlq.dlq_edits WHERE original_id = m.id),
	b.topic_id, b.partition, b.record_offset, a.id IS NOT NULL,
	COALESCE(a.number, 0), COALESCE(a.workflow_id, ''), COALESCE(a.owner_token, ''), a.started_at, a.ended_at,
	COALESCE(a.result, ''), COALESCE(a.category, ''), COALESCE(a.error, ''), a.target_partition, a.target_offset
FROM found m
LEFT JOIN LATERAL (
	SELECT b.topic_id, b.partition, b.record_offset FROM dlq.dlq_message_bodies b WHERE b.message_id = m.id OFFSET 0
) AS b ON true
LEFT JOIN LATERAL (
	SELECT * FROM dlq.dlq_retry_attempts a WHERE a.message_id = m.id OFFSET 0
) AS a ON true
WHERE m.place <= 1000
ORDER BY m.seq, m.id, a.id`

// Chain returns the chain of a message, which may be archived, or dlq.ErrNotFound.
func (s *Store) Chain(ctx context.Context, id dlq.ID) (chain dlq.Chain, err error) {
	err = s.batch(ctx, "read chain", func(batch *pgx.Batch) {
		chain = dlq.Chain{}
		var room dlq.ListRoom
		batch.Queue(byIndexSQL)
		batch.Queue(chainSQL, pgx.NamedArgs{"id": uuid(id)}).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				if err := scanHop(rows, &chain, &room); err != nil {
					return err
				}
			}
			return rows.Err()
		})
	})
	if err == nil && len(chain.Hops) == 0 {
		err = dlq.MessageNotFound(id)
	}
	return chain, err
}

// scanHop adds a row of chainSQL to the chain: a hop, or a further attempt of the last hop.
func scanHop(row pgx.CollectableRow, chain *dlq.Chain, room *dlq.ListRoom) error {
	var h dlq.Hop
	var a dlq.Attempt
	var isLonger, attempted bool
	targets := slices.Concat([]any{&isLonger}, messageTargets(&h.Message), []any{&h.Archived, (*zeronull.UUID)(&h.Edits.From), (*zeronull.UUID)(&h.Edits.By)},
		sourceTargets(&h.Source), []any{&attempted}, attemptTargets(&a))
	if err := row.Scan(targets...); err != nil {
		return err
	}
	if last := len(chain.Hops) - 1; last < 0 || chain.Hops[last].ID != h.ID {
		chain.Hops = append(chain.Hops, h)
	}
	last := &chain.Hops[len(chain.Hops)-1]
	isFull := attempted && !room.Take(a.ListSize())
	if attempted && !isFull {
		last.Attempts = append(last.Attempts, a)
	}
	chain.Truncated = chain.Truncated || isLonger || isFull
	return nil
}
