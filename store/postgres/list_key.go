package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// listKeySQL reads every message with a key, an origin or an id of a trace, once for the page
// and the total. It does so only if there are at most 20,000 messages, including archived
// ones, which takes a tenth of a second. The first row may carry no message.
const listKeySQL = `
WITH probe AS MATERIALIZED (
	SELECT count(*) <= 20000 AS is_rare
	FROM (SELECT FROM dlq.dlq_message_bodies b WHERE true /* lookup */ LIMIT 20001) AS body
), match AS MATERIALIZED (
	SELECT m.id, m.created_at, m.seq
	FROM dlq.dlq_message_bodies b
	CROSS JOIN LATERAL (SELECT * FROM dlq.dlq_messages WHERE id = b.message_id LIMIT 1) AS m
	WHERE (SELECT is_rare FROM probe) AND (m.dlq_topic = @topic OR m.original_topic = @topic)
		AND m.status = ANY (@statuses::text[]) AND true /* filter */
), page AS (
	SELECT m.id
	FROM match m
	WHERE true /* after */
	ORDER BY m.created_at DESC /* order */, m.seq DESC /* order */
	LIMIT @limit OFFSET @skip
)
SELECT probe.is_rare, (SELECT count(*) FROM match), m.id IS NOT NULL,
	m.id, m.seq, m.original_topic, m.dlq_topic, left(m.error_message, 16384), m.error_class, m.retry_count, m.max_retries,
	CASE WHEN octet_length(p.payload) <= 65536 THEN p.payload END,
	m.status, m.created_at, m.updated_at, m.last_retry_at, m.workflow_id, m.owner_token, m.previous_id,
	m.resolution, m.target_partition, m.target_offset, m.suspicious, m.group_id,
	CASE WHEN m.payload IS NOT NULL THEN COALESCE(octet_length(p.payload), m.size) END
FROM probe
LEFT JOIN (page JOIN dlq.dlq_messages m ON m.id = page.id
	CROSS JOIN LATERAL (SELECT CASE WHEN m.size <= @inlined::int THEN m.payload::text END AS payload OFFSET 0) AS p) ON true
ORDER BY m.created_at DESC /* order */, m.seq DESC /* order */`

// listFewSQL reads every message of the groups of possibleGroupsSQL, and those without a group, once for the
// page and the total, if there are at most 20,000. Each OFFSET makes the server find them by their group and
// not by their topic. The first row may carry no message.
const listFewSQL = `
WITH probe AS MATERIALIZED (
	SELECT count(*) <= 20000 AS is_rare
	FROM (
		(SELECT
		FROM unnest(@groups::uuid[]) AS p (id)
		CROSS JOIN LATERAL (SELECT FROM dlq.dlq_messages WHERE group_id = p.id AND status <> 'RETRYING' OFFSET 0) AS m)
		UNION ALL
		(SELECT FROM dlq.dlq_messages m WHERE m.group_id IS NULL AND m.status <> 'RETRYING')
		LIMIT 20001
	) AS message
), match AS MATERIALIZED (
	(SELECT m.id, m.created_at, m.seq
	FROM unnest(@groups::uuid[]) AS p (id)
	CROSS JOIN LATERAL (SELECT * FROM dlq.dlq_messages WHERE group_id = p.id AND status <> 'RETRYING' OFFSET 0) AS m
	WHERE (SELECT is_rare FROM probe) AND (m.dlq_topic = @topic OR m.original_topic = @topic)
		AND m.status = ANY (@statuses::text[]) AND true /* filter */)
	UNION ALL
	(SELECT m.id, m.created_at, m.seq
	FROM (SELECT * FROM dlq.dlq_messages WHERE group_id IS NULL AND status <> 'RETRYING' OFFSET 0) AS m
	WHERE (SELECT is_rare FROM probe) AND (m.dlq_topic = @topic OR m.original_topic = @topic) AND m.status = ANY (@statuses::text[]) AND true /* filter */)
	UNION ALL
	(SELECT m.id, m.created_at, m.seq
	FROM dlq.dlq_messages m
	WHERE 'RETRYING' = ANY (@statuses::text[]) AND m.status = 'RETRYING' AND m.id = ANY (ARRAY(SELECT id FROM dlq.dlq_retrying))
		AND (SELECT is_rare FROM probe) AND (m.dlq_topic = @topic OR m.original_topic = @topic) AND true /* filter */)
), page AS (
	SELECT m.id
	FROM match m
	WHERE true /* after */
	ORDER BY m.created_at DESC /* order */, m.seq DESC /* order */
	LIMIT @limit OFFSET @skip
)
SELECT probe.is_rare, (SELECT count(*) FROM match), m.id IS NOT NULL,
	m.id, m.seq, m.original_topic, m.dlq_topic, left(m.error_message, 16384), m.error_class, m.retry_count, m.max_retries,
	CASE WHEN octet_length(p.payload) <= 65536 THEN p.payload END,
	m.status, m.created_at, m.updated_at, m.last_retry_at, m.workflow_id, m.owner_token, m.previous_id,
	m.resolution, m.target_partition, m.target_offset, m.suspicious, m.group_id,
	CASE WHEN m.payload IS NOT NULL THEN COALESCE(octet_length(p.payload), m.size) END
FROM probe
LEFT JOIN (page JOIN dlq.dlq_messages m ON m.id = page.id
	CROSS JOIN LATERAL (SELECT CASE WHEN m.size <= @inlined::int THEN m.payload::text END AS payload OFFSET 0) AS p) ON true
ORDER BY m.created_at DESC /* order */, m.seq DESC /* order */`

// countFewSQL counts the same messages, and stops at CountLimit + 1. Where many match, it is soon
// there: it reads only messages of groups that can match.
const countFewSQL = `
SELECT count(*)
FROM (
	(SELECT
	FROM unnest(@groups::uuid[]) AS p (id)
	CROSS JOIN LATERAL (SELECT * FROM dlq.dlq_messages WHERE group_id = p.id AND status <> 'RETRYING' OFFSET 0) AS m
	WHERE (m.dlq_topic = @topic OR m.original_topic = @topic) AND m.status = ANY (@statuses::text[]) AND true /* filter */)
	UNION ALL
	(SELECT
	FROM (SELECT * FROM dlq.dlq_messages WHERE group_id IS NULL AND status <> 'RETRYING' OFFSET 0) AS m
	WHERE (m.dlq_topic = @topic OR m.original_topic = @topic) AND m.status = ANY (@statuses::text[]) AND true /* filter */)
	UNION ALL
	(SELECT
	FROM dlq.dlq_messages m
	WHERE 'RETRYING' = ANY (@statuses::text[]) AND m.status = 'RETRYING' AND m.id = ANY (ARRAY(SELECT id FROM dlq.dlq_retrying))
		AND (m.dlq_topic = @topic OR m.original_topic = @topic) AND true /* filter */)
	LIMIT 10001
) AS counted`

// listKey lists messages by listKeySQL. If there are too many, isRare is false, and there is no page.
func (s *Store) listKey(ctx context.Context, q *dlq.ListQuery) (page dlq.Page, isRare bool, err error) {
	err = s.batch(ctx, "list messages", func(batch *pgx.Batch) {
		batch.Queue(byIndexSQL)
		batch.Queue(listed(listKeySQL, q), listArgs(q)).Query(pageCollector(&page, &isRare))
	})
	return page, isRare, err
}

// possibleGroup is a row of possibleGroupsSQL.
type possibleGroup struct {
	ID       [16]byte
	Messages int64
}

// listText lists messages with the texts of a search. If there are too many groups or messages to
// read by their group, isListed is false, and there is no page.
func (s *Store) listText(ctx context.Context, q *dlq.ListQuery) (page dlq.Page, isListed bool, err error) {
	args := listArgs(q)
	err = s.inSnapshot(ctx, "search messages", func(send snapshotSender) error {
		var groups []possibleGroup
		err := send(false, func(batch *pgx.Batch) {
			queueQuery(batch, &groups, pgx.RowToStructByPos[possibleGroup], possibleGroupsSQL, args)
		})
		if err != nil {
			return err
		}
		args["groups"] = column(groups, func(g *possibleGroup) [16]byte { return g.ID })
		var messages int64
		for _, g := range groups {
			messages += g.Messages
		}
		switch {
		case len(groups) <= fewGroups && messages <= fewMessages:
			return send(true, func(batch *pgx.Batch) {
				batch.Queue(byIndexSQL)
				batch.Queue(listed(listFewSQL, q), args).Query(pageCollector(&page, &isListed))
			})
		case len(groups) <= maxPossibleGroups && messages <= maxPossibleMessages:
			isListed = true
			list := listed(pruned(listSQL, &q.Filter, ofGroups), q)
			return sendPage(send, q, args, &page, list, byIndexSQL, listed(countFewSQL, q))
		}
		isListed = false
		return send(true, func(*pgx.Batch) {})
	})
	return page, isListed, err
}

func pageCollector(page *dlq.Page, isRare *bool) func(pgx.Rows) error {
	return func(rows pgx.Rows) (err error) {
		page.Messages, err = collectAfter(rows, fittingMessages(), isRare, &page.Total)
		return err
	}
}

// collectAfter reads rows that begin with the values of prefix, then tell whether a message follows, and then
// have the message. So a statement can return a status even without messages.
func collectAfter[T any](rows pgx.Rows, scan pgx.RowToFunc[T], prefix ...any) (found []T, err error) {
	var follows bool
	var targets []any // columns with a nil target are skipped
	prefix = append(prefix, &follows)
	for rows.Next() {
		if targets == nil { // after Next, because failed rows have no columns
			targets = make([]any, len(rows.FieldDescriptions()))
			copy(targets, prefix)
		}
		if err := rows.Scan(targets...); err != nil {
			return nil, err
		}
		if !follows {
			continue
		}
		row, err := scan(withoutPrefix{rows, len(prefix)})
		if err != nil {
			return nil, err
		}
		found = append(found, row)
	}
	return found, rows.Err()
}

// withoutPrefix is a row without its first columns.
type withoutPrefix struct {
	pgx.Rows
	columns int
}

// Scan skips the first columns.
func (r withoutPrefix) Scan(targets ...any) error {
	return r.Rows.Scan(append(make([]any, r.columns), targets...)...)
}
