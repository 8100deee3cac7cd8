package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// listKeySQL looks every message of the key up, once for the page and the total, as
// long as the key has 20,000 messages at most, archived ones included: a tenth of a
// second's work. The first row may carry no message.
const listKeySQL = `
WITH probe AS MATERIALIZED (
	SELECT count(*) <= 20000 AS few
	FROM (SELECT FROM dlq.dlq_message_bodies WHERE key_hash = @key_hash AND key IS NOT NULL LIMIT 20001) AS looked_at
), match AS MATERIALIZED (
	SELECT m.id, m.created_at, m.seq
	FROM dlq.dlq_message_bodies b
	CROSS JOIN LATERAL (SELECT * FROM dlq.dlq_messages WHERE id = b.message_id LIMIT 1) AS m
	WHERE (SELECT few FROM probe) AND (m.dlq_topic = @topic OR m.original_topic = @topic)
		AND m.status = ANY (@statuses::text[]) AND true /* filter */
), page AS (
	SELECT m.id
	FROM match m
	WHERE true /* after */
	ORDER BY m.created_at DESC /* order */, m.seq DESC /* order */
	LIMIT @limit OFFSET @skip
)
SELECT probe.few, (SELECT count(*) FROM match), m.id IS NOT NULL,
	m.id, m.seq, m.original_topic, m.dlq_topic, m.error_message, m.error_class, m.retry_count, m.max_retries, m.payload,
	m.status, m.created_at, m.updated_at, m.last_retry_at, m.workflow_id, m.owner_token, m.previous_id
FROM probe
LEFT JOIN (page JOIN dlq.dlq_messages m ON m.id = page.id) ON true
ORDER BY m.created_at DESC /* order */, m.seq DESC /* order */`

// listKey lists the messages of a key, unless it has too many: then few is false.
func (s *Store) listKey(ctx context.Context, q *dlq.ListQuery) (page dlq.Page, few bool, err error) {
	err = s.batch(ctx, "list messages", func(batch *pgx.Batch) {
		batch.Queue(byIndexSQL)
		batch.Queue(listed(listKeySQL, q), listArgs(q)).Query(func(rows pgx.Rows) (err error) {
			page.Messages, err = collectAfter(rows, scanMessage, &few, &page.Total)
			return err
		})
	})
	return page, few, err
}

// collectAfter reads rows that begin with the same columns, which go into prefix,
// and with one that says whether a message follows. So a statement can say something
// of a job or a list without messages too.
func collectAfter[T any](rows pgx.Rows, scan pgx.RowToFunc[T], prefix ...any) (found []T, err error) {
	var follows bool
	var targets []any // nil ones are not read
	prefix = append(prefix, &follows)
	for rows.Next() {
		if targets == nil { // not before: rows that are an error have no columns
			targets = make([]any, len(rows.FieldDescriptions()))
			copy(targets, prefix)
		}
		if err := rows.Scan(targets...); err != nil {
			return nil, err
		}
		if !follows {
			continue
		}
		row, err := scan(afterPrefix{rows, len(prefix)})
		if err != nil {
			return nil, err
		}
		found = append(found, row)
	}
	return found, rows.Err()
}

// afterPrefix is a row without its first columns.
type afterPrefix struct {
	pgx.Rows
	columns int
}

// Scan leaves the first columns unread.
func (r afterPrefix) Scan(targets ...any) error {
	return r.Rows.Scan(append(make([]any, r.columns), targets...)...)
}
