package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// topicsSQL reads the counts. By index it reads the newest message of each count and the oldest PENDING message. RETRYING
// messages, which are few and not in these indexes, are read apart. Rows of other programs may have no dead-letter topic:
// they are listed under their original topic, but not if @within limits the topics. A topic whose records were lost is
// listed even if it has no messages.
const topicsSQL = `
WITH retrying AS MATERIALIZED (
	SELECT dlq_topic, original_topic, created_at, seq
	FROM dlq.dlq_messages
	WHERE status = 'RETRYING' AND id = ANY (ARRAY(SELECT id FROM dlq.dlq_retrying))
), lost AS (
	SELECT topic AS name, sum(lost)::bigint AS n, max(lost_at) AS at
	FROM dlq.dlq_ingest_offsets
	WHERE lost > 0 AND topic <> '' AND topic ~ @within
	GROUP BY topic
), counted AS (
	SELECT dlq_topic, '' AS original_topic, status, sum(messages)::bigint AS n
	FROM dlq.dlq_topic_counts
	WHERE dlq_topic > '' AND dlq_topic ~ @within
	GROUP BY dlq_topic, status
	UNION ALL
	SELECT '', original_topic, status, messages
	FROM dlq.dlq_topic_counts
	WHERE dlq_topic = '' AND @within = ''
	UNION ALL
	SELECT name, '', NULL, 0 FROM lost
)
SELECT CASE WHEN c.dlq_topic = '' THEN c.original_topic ELSE c.dlq_topic END COLLATE "C" AS topic,
	COALESCE((array_agg(newest.original_topic ORDER BY newest.created_at DESC NULLS LAST, newest.seq DESC))[1], ''),
	max(newest.created_at),
	min(oldest.created_at),
	COALESCE(array_agg(c.status) FILTER (WHERE c.n > 0), '{}'), COALESCE(array_agg(c.n) FILTER (WHERE c.n > 0), '{}'),
	COALESCE(max(lost.n), 0), max(lost.at)
FROM counted c
LEFT JOIN LATERAL (
	(SELECT m.seq, m.original_topic, m.created_at
	FROM dlq.dlq_messages m
	WHERE c.dlq_topic <> '' AND m.dlq_topic = c.dlq_topic AND m.status = c.status AND m.status <> 'RETRYING'
	ORDER BY m.created_at DESC, m.seq DESC
	LIMIT 1)
	UNION ALL
	(SELECT m.seq, m.original_topic, m.created_at
	FROM dlq.dlq_messages m
	WHERE c.dlq_topic = '' AND m.original_topic = c.original_topic AND m.status = c.status AND m.status <> 'RETRYING' AND m.dlq_topic = ''
	ORDER BY m.created_at DESC, m.seq DESC
	LIMIT 1)
	UNION ALL
	(SELECT r.seq, r.original_topic, r.created_at
	FROM retrying r
	WHERE c.status = 'RETRYING' AND r.dlq_topic = c.dlq_topic AND (c.dlq_topic <> '' OR r.original_topic = c.original_topic)
	ORDER BY r.created_at DESC, r.seq DESC
	LIMIT 1)
) AS newest ON true
LEFT JOIN LATERAL (
	(SELECT m.created_at FROM dlq.dlq_messages m
	WHERE c.dlq_topic <> '' AND m.dlq_topic = c.dlq_topic AND m.status = 'PENDING'
	ORDER BY m.created_at, m.seq LIMIT 1)
	UNION ALL
	(SELECT m.created_at FROM dlq.dlq_messages m
	WHERE c.dlq_topic = '' AND m.original_topic = c.original_topic AND m.status = 'PENDING' AND m.dlq_topic = ''
	ORDER BY m.created_at, m.seq LIMIT 1)
) AS oldest ON c.status = 'PENDING'
LEFT JOIN lost ON lost.name = c.dlq_topic
GROUP BY topic
ORDER BY topic`

// Topics summarises every dead-letter topic, sorted by name.
func (s *Store) Topics(ctx context.Context) ([]dlq.TopicSummary, error) {
	return s.TopicsWithin(ctx, "")
}

// TopicsWithin summarises the dead-letter topics that match an expression; empty for all.
func (s *Store) TopicsWithin(ctx context.Context, within string) ([]dlq.TopicSummary, error) {
	return queryAll(ctx, s, "list topics", scanTopic, topicsSQL, pgx.NamedArgs{"within": within}, inOrderSQL)
}

func scanTopic(row pgx.CollectableRow) (dlq.TopicSummary, error) {
	t := dlq.TopicSummary{Counts: map[dlq.Status]int64{}}
	var statuses []string
	var counts []int64
	if err := row.Scan(&t.DLQTopic, &t.OriginalTopic, instant{&t.NewestArrival}, optionalInstant{&t.OldestPending}, &statuses, &counts,
		&t.Lost, optionalInstant{&t.LostAt}); err != nil {
		return dlq.TopicSummary{}, err
	}
	for i, status := range statuses {
		t.Counts[dlq.Status(status)] += counts[i] // a dead-letter topic and an original topic may share a name
	}
	return t, nil
}

// topicsBesideSQL reads the other topic of each pair of topics that has messages.
const topicsBesideSQL = `
SELECT DISTINCT CASE WHEN dlq_topic = @topic THEN original_topic ELSE dlq_topic END
FROM dlq.dlq_topic_counts
WHERE dlq_topic = @topic OR original_topic = @topic`

// TopicsBeside returns the original topics of a dead-letter topic and the dead-letter topics of an original topic, if there
// are messages with both topics.
func (s *Store) TopicsBeside(ctx context.Context, topic string) ([]string, error) {
	return queryAll(ctx, s, "list topics beside a topic", pgx.RowTo[string], topicsBesideSQL, pgx.NamedArgs{"topic": topic})
}
