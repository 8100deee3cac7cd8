package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// listGrantedSQL is listSQL for those who may see some dead-letter topics only. It reads one index range for
// each, since by the original topic it would read the messages of all others for each page.
const listGrantedSQL = `
SELECT m.id, m.seq, m.original_topic, m.dlq_topic, left(m.error_message, 16384), m.error_class, m.retry_count, m.max_retries,
	CASE WHEN octet_length(p.payload) <= 65536 THEN p.payload END,
	m.status, m.created_at, m.updated_at, m.last_retry_at, m.workflow_id, m.owner_token, m.previous_id,
	m.resolution, m.target_partition, m.target_offset, m.suspicious, m.group_id,
	CASE WHEN m.payload IS NOT NULL THEN COALESCE(octet_length(p.payload), m.size) END
FROM (
	SELECT m.id, m.created_at, m.seq
	FROM unnest(@statuses::text[]) AS wanted (status)
	CROSS JOIN LATERAL (
		SELECT m.id, m.created_at, m.seq
		FROM unnest(@granted::text[]) AS granted (topic)
		CROSS JOIN LATERAL (
			SELECT m.id, m.created_at, m.seq
			FROM dlq.dlq_messages m
			WHERE m.dlq_topic = granted.topic AND (m.dlq_topic = @topic OR m.original_topic = @topic)
				AND m.status = wanted.status AND m.status <> 'RETRYING' AND true /* filter */ AND true /* after */
			ORDER BY m.created_at DESC /* order */, m.seq DESC /* order */
			LIMIT @limit::bigint + @skip::bigint
		) AS m
		UNION ALL
		(SELECT m.id, m.created_at, m.seq
		FROM dlq.dlq_messages m
		WHERE wanted.status = 'RETRYING' AND m.status = 'RETRYING' AND m.id = ANY (ARRAY(SELECT id FROM dlq.dlq_retrying))
			AND (m.dlq_topic = @topic OR m.original_topic = @topic) AND true /* filter */ AND true /* after */)
	) AS m
	ORDER BY m.created_at DESC /* order */, m.seq DESC /* order */
	LIMIT @limit OFFSET @skip
) AS page
JOIN dlq.dlq_messages m ON m.id = page.id
CROSS JOIN LATERAL (SELECT CASE WHEN m.size <= @inlined::int THEN m.payload::text END AS payload OFFSET 0) AS p
ORDER BY page.created_at DESC /* order */, page.seq DESC /* order */`

// countGrantedSQL counts along the same indexes, and stops at CountLimit + 1.
const countGrantedSQL = `
SELECT count(*)
FROM (
	SELECT
	FROM unnest(@statuses::text[]) AS wanted (status)
	CROSS JOIN LATERAL (
		SELECT
		FROM unnest(@granted::text[]) AS granted (topic)
		CROSS JOIN LATERAL (
			SELECT
			FROM dlq.dlq_messages m
			WHERE m.dlq_topic = granted.topic AND (m.dlq_topic = @topic OR m.original_topic = @topic)
				AND m.status = wanted.status AND m.status <> 'RETRYING' AND true /* filter */
			ORDER BY m.created_at, m.seq
		) AS m
		UNION ALL
		(SELECT
		FROM dlq.dlq_messages m
		WHERE wanted.status = 'RETRYING' AND m.status = 'RETRYING' AND m.id = ANY (ARRAY(SELECT id FROM dlq.dlq_retrying))
			AND (m.dlq_topic = @topic OR m.original_topic = @topic) AND true /* filter */)
	) AS m
	LIMIT 10001
) AS counted`

// grantedSQL finds the dead-letter topics of a list, and whether they have fewer messages than the
// topic of the list. A dead-letter topic may have the messages of many original topics.
const grantedSQL = `
WITH counted AS MATERIALIZED (
	SELECT dlq_topic, original_topic, sum(messages) AS messages FROM dlq.dlq_topic_counts GROUP BY dlq_topic, original_topic
), granted AS MATERIALIZED (
	SELECT DISTINCT dlq_topic FROM counted WHERE @topic IN (dlq_topic, original_topic) AND dlq_topic ~ @within
)
SELECT ARRAY(SELECT dlq_topic::text FROM granted),
	COALESCE(sum(messages) FILTER (WHERE dlq_topic IN (SELECT dlq_topic FROM granted)), 0)
		<= COALESCE(sum(messages) FILTER (WHERE @topic IN (dlq_topic, original_topic)), 0)
FROM counted`

// grantedArchiveSQL is grantedSQL for the archive, which has no counts. It steps from topic to topic by index.
const grantedArchiveSQL = `
WITH RECURSIVE known (topic) AS (
	(SELECT dlq_topic FROM dlq.dlq_messages_archive WHERE original_topic = @topic ORDER BY dlq_topic LIMIT 1)
	UNION ALL
	SELECT (SELECT a.dlq_topic FROM dlq.dlq_messages_archive a
		WHERE a.original_topic = @topic AND a.dlq_topic > known.topic ORDER BY a.dlq_topic LIMIT 1)
	FROM known
	WHERE known.topic IS NOT NULL
)
SELECT ARRAY(SELECT topic::text FROM known WHERE topic ~ @within UNION SELECT @topic), true`

// granted returns the dead-letter topics of a list of somebody who may see some topics only, and
// whether the list is cheaper by these topics than by its topic.
func (s *Store) granted(ctx context.Context, q *dlq.ListQuery) (topics []string, isCheaper bool, err error) {
	type granted struct {
		Topics    []string
		IsCheaper bool
	}
	sql := grantedSQL
	if q.Archived {
		sql = grantedArchiveSQL
	}
	found, _, err := queryOne(ctx, s, "find granted topics", pgx.RowToStructByPos[granted], sql,
		pgx.NamedArgs{"topic": q.Topic, "within": q.Within}, byIndexSQL)
	return found.Topics, found.IsCheaper, err
}
