package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// grantedSQL finds the dead-letter topics of a list that match @within, and compares their number of messages
// with the topic of the list. A dead-letter topic may have the messages of many original topics.
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

// granted returns the dead-letter topics that a list may show to a caller who may see some topics only.
// isCheaper reports whether it is cheaper to read the list by these topics than by its own topic.
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
