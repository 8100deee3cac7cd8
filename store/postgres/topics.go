package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// topicsSQL reads the counts, and for each of them the newest and the oldest message by
// index. Rows that another program has put in, with the documented columns only, have no
// dead-letter topic and stand under their original one. A topic that lost records is
// listed although nothing of it may be left.
const topicsSQL = `
WITH lost AS (
	SELECT topic AS name, sum(lost)::bigint AS n, max(lost_at) AS at
	FROM dlq.dlq_ingest_offsets
	WHERE lost > 0 AND topic <> ''
	GROUP BY topic
), counted AS (
	SELECT dlq_topic, '' AS original_topic, status, sum(messages)::bigint AS n
	FROM dlq.dlq_topic_counts
	WHERE dlq_topic > ''
	GROUP BY dlq_topic, status
	UNION ALL
	SELECT '', original_topic, status, messages
	FROM dlq.dlq_topic_counts
	WHERE dlq_topic = ''
	UNION ALL
	SELECT name, '', NULL, 0 FROM lost
)
SELECT CASE WHEN c.dlq_topic = '' THEN c.original_topic ELSE c.dlq_topic END COLLATE "C" AS topic,
	COALESCE((array_agg(newest.original_topic ORDER BY newest.created_at DESC NULLS LAST, newest.seq DESC))[1], ''),
	max(newest.created_at),
	min(oldest.created_at) FILTER (WHERE c.status = 'PENDING'),
	COALESCE(array_agg(c.status) FILTER (WHERE c.n > 0), '{}'), COALESCE(array_agg(c.n) FILTER (WHERE c.n > 0), '{}'),
	COALESCE(max(lost.n), 0), max(lost.at)
FROM counted c
LEFT JOIN LATERAL (
	(SELECT m.seq, m.original_topic, m.created_at
	FROM dlq.dlq_messages m
	WHERE c.dlq_topic <> '' AND m.dlq_topic = c.dlq_topic AND m.status = c.status
	ORDER BY m.created_at DESC, m.seq DESC
	LIMIT 1)
	UNION ALL
	(SELECT m.seq, m.original_topic, m.created_at
	FROM dlq.dlq_messages m
	WHERE c.dlq_topic = '' AND m.original_topic = c.original_topic AND m.status = c.status AND m.dlq_topic = ''
	ORDER BY m.created_at DESC, m.seq DESC
	LIMIT 1)
) AS newest ON true
LEFT JOIN LATERAL (
	(SELECT m.created_at
	FROM dlq.dlq_messages m
	WHERE c.dlq_topic <> '' AND m.dlq_topic = c.dlq_topic AND m.status = c.status
	ORDER BY m.created_at, m.seq
	LIMIT 1)
	UNION ALL
	(SELECT m.created_at
	FROM dlq.dlq_messages m
	WHERE c.dlq_topic = '' AND m.original_topic = c.original_topic AND m.status = c.status AND m.dlq_topic = ''
	ORDER BY m.created_at, m.seq
	LIMIT 1)
) AS oldest ON true
LEFT JOIN lost ON lost.name = c.dlq_topic
GROUP BY topic
ORDER BY topic`

// Topics summarises every dead-letter topic, in the order of their names.
func (s *Store) Topics(ctx context.Context) (topics []dlq.TopicSummary, err error) {
	err = s.batch(ctx, "list topics", func(batch *pgx.Batch) {
		batch.Queue(inOrderSQL)
		queue(batch, &topics, scanTopic, topicsSQL, pgx.NamedArgs{})
	})
	return topics, err
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
		t.Counts[dlq.Status(status)] += counts[i] // rows of both kinds may share a name
	}
	return t, nil
}

// foldCountsSQL adds changes to the sums, ten thousand at once, and tells how many. Several
// that do so take different ones, and lock the sums in one order.
const foldCountsSQL = `
WITH change AS (
	DELETE FROM dlq.dlq_topic_count_changes
	WHERE ctid = ANY (ARRAY(SELECT ctid FROM dlq.dlq_topic_count_changes LIMIT 10000 FOR UPDATE SKIP LOCKED))
	RETURNING dlq_topic, original_topic, status, messages
), sums AS (
	INSERT INTO dlq.dlq_topic_count_sums AS s (dlq_topic, original_topic, status, messages)
	SELECT dlq_topic, original_topic, status, sum(messages)
	FROM change
	GROUP BY dlq_topic, original_topic, status
	ORDER BY dlq_topic, original_topic, status
	ON CONFLICT (dlq_topic, original_topic, status) DO UPDATE SET messages = s.messages + EXCLUDED.messages
)
SELECT count(*) FROM change`

const forgetCountsSQL = `DELETE FROM dlq.dlq_topic_count_sums WHERE messages = 0`

// FoldCounts keeps the reading of counts cheap: it adds up what has changed since it was
// called last. The counts stay as they are.
func (s *Store) FoldCounts(ctx context.Context) error {
	for folded := int64(foldedAtOnce); folded == foldedAtOnce; { // there is always more on a busy day
		err := s.batch(ctx, "fold counts", func(batch *pgx.Batch) {
			batch.Queue(byIndexSQL) // else a plan that was made for few changes is used for many
			batch.Queue(foldCountsSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&folded) })
		})
		if err != nil {
			return err
		}
	}
	return s.batch(ctx, "forget empty counts", func(batch *pgx.Batch) { batch.Queue(forgetCountsSQL) })
}

// foldedAtOnce is the limit in foldCountsSQL.
const foldedAtOnce = 10_000

const pendingSQL = `
SELECT dlq_topic, sum(messages)::bigint
FROM dlq.dlq_topic_counts
WHERE status = 'PENDING'
GROUP BY dlq_topic`

// Pending counts the PENDING messages of each of these dead-letter topics, and of all.
func (s *Store) Pending(ctx context.Context, dlqTopics []string) (counts []int64, sum int64, err error) {
	type pending struct {
		Topic    string
		Messages int64
	}
	found, err := all(ctx, s, "count pending messages", pgx.RowToStructByPos[pending], pendingSQL, pgx.NamedArgs{})
	ofTopic := map[string]int64{}
	for _, p := range found {
		ofTopic[p.Topic] = p.Messages
		sum += p.Messages
	}
	for _, topic := range dlqTopics {
		counts = append(counts, ofTopic[topic])
	}
	return counts, sum, err
}
