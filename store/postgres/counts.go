package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// foldCountsSQL adds up to 1,000 rows of changes to the sums of topics and groups, deletes these rows, and reports
// whether rows may be left. A row may have thousands of groups, so the statement stops after the row that passes
// 1,600,000 bytes, the size of 100,000 ids. The size of the times counts too: PostgreSQL compresses the ids of a few
// groups, but not the times of their arrivals. Concurrent calls take different changes and lock the sums in the same
// order. An arrival is counted twice: for its topics, with a group id of zeros, and for its group. A row that was
// written by hand may have a group id of zeros itself, or fewer numbers than groups.
const foldCountsSQL = `
WITH batch AS (
	DELETE FROM dlq.dlq_count_batches
	WHERE ctid = ANY (ARRAY(
		SELECT ctid
		FROM (SELECT ctid, sum(` + bytesOfChanges + `) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
			FROM (SELECT ctid, group_ids, arrived_at FROM dlq.dlq_count_batches LIMIT 1000 FOR UPDATE SKIP LOCKED) AS locked) AS next
		WHERE COALESCE(bytes_before, 0) < 1600000))
	RETURNING dlq_topic, original_topic, status, group_ids, messages, arrived_at, ` + bytesOfChanges + ` AS bytes
), change AS MATERIALIZED (
	SELECT b.dlq_topic, b.original_topic, b.status, c.group_id, COALESCE(c.messages, 0) AS messages, c.arrived_at
	FROM batch b
	CROSS JOIN LATERAL unnest(b.group_ids, b.messages, b.arrived_at) AS c (group_id, messages, arrived_at)
), topics AS (
	INSERT INTO dlq.dlq_topic_count_sums AS s (dlq_topic, original_topic, status, messages)
	SELECT dlq_topic, original_topic, status, sum(messages)
	FROM change
	GROUP BY dlq_topic, original_topic, status
	ORDER BY dlq_topic, original_topic, status
	ON CONFLICT (dlq_topic, original_topic, status) DO UPDATE SET messages = s.messages + EXCLUDED.messages
), groups AS (
	INSERT INTO dlq.dlq_group_count_sums AS s (group_id, dlq_topic, original_topic, status, messages)
	SELECT group_id, dlq_topic, original_topic, status, sum(messages)
	FROM change
	WHERE group_id IS NOT NULL
	GROUP BY group_id, dlq_topic, original_topic, status
	ORDER BY group_id, dlq_topic, original_topic, status
	ON CONFLICT (group_id, dlq_topic, original_topic, status) DO UPDATE SET messages = s.messages + EXCLUDED.messages
), arrivals AS (
	INSERT INTO dlq.dlq_group_arrivals AS a (group_id, arrived, last_seen)
	SELECT group_id, sum(messages), max(arrived_at)
	FROM change
	WHERE group_id IS NOT NULL AND arrived_at IS NOT NULL
	GROUP BY group_id
	ORDER BY group_id
	ON CONFLICT (group_id) DO UPDATE SET arrived = a.arrived + EXCLUDED.arrived, last_seen = greatest(a.last_seen, EXCLUDED.last_seen)
), series AS (
	INSERT INTO dlq.dlq_arrivals AS a (group_id, step, at, dlq_topic, original_topic, arrived)
	SELECT COALESCE(c.group_id, '00000000-0000-0000-0000-000000000000'), s.step, date_trunc(s.step, c.arrived_at, 'UTC'),
		c.dlq_topic, c.original_topic, sum(c.messages)
	FROM change c
	CROSS JOIN unnest('{minute,hour}'::text[]) AS s (step)
	WHERE isfinite(c.arrived_at)
	GROUP BY 2, 3, 4, 5, GROUPING SETS ((), (c.group_id))
	HAVING grouping(c.group_id) = 1 OR c.group_id <> '00000000-0000-0000-0000-000000000000'
	ORDER BY 1, 2, 3, 4, 5
	ON CONFLICT (group_id, step, at, dlq_topic, original_topic) DO UPDATE SET arrived = a.arrived + EXCLUDED.arrived
)
SELECT count(*) = 1000 OR COALESCE(sum(bytes), 0) >= 1600000 FROM batch`

const bytesOfChanges = `pg_column_size(group_ids) + COALESCE(pg_column_size(arrived_at), 0)`

// deleteEmptyCountsSQL keeps the empty counts of groups, which tell in which topics the messages
// of a group were.
const deleteEmptyCountsSQL = `DELETE FROM dlq.dlq_topic_count_sums WHERE messages = 0`

// deleteOldArrivalsSQL skips rows that another sweeper deletes, and deletes a limited number, so each sweep has little work.
const deleteOldArrivalsSQL = `
DELETE FROM dlq.dlq_arrivals
WHERE ctid = ANY (ARRAY(
	SELECT ctid FROM dlq.dlq_arrivals WHERE step = @step AND at < now() - @kept::interval LIMIT 10000 FOR UPDATE SKIP LOCKED))`

// FoldCounts adds the changes since the last call to the sums, so that counts stay cheap to
// read. The counts do not change. FoldCounts also deletes arrivals that are not kept any more.
func (s *Store) FoldCounts(ctx context.Context) error {
	for isMore := true; isMore; {
		var err error
		// Indexes are forced, since a plan for few changes would be too slow for many changes.
		isMore, _, err = queryOne(ctx, s, "fold counts", pgx.RowTo[bool], foldCountsSQL, pgx.NamedArgs{}, byIndexSQL)
		if err != nil {
			return err
		}
	}
	return s.batch(ctx, "delete old counts", func(batch *pgx.Batch) {
		batch.Queue(byIndexSQL)
		for _, step := range dlq.Steps {
			batch.Queue(deleteOldArrivalsSQL, pgx.NamedArgs{"step": step, "kept": step.Kept()})
		}
		batch.Queue(deleteEmptyCountsSQL) // last, since other sweepers wait for its locks
	})
}

const pendingSQL = `
SELECT dlq_topic, sum(messages)::bigint
FROM dlq.dlq_topic_counts
WHERE status = 'PENDING'
GROUP BY dlq_topic`

// Pending returns the number of PENDING messages in each of these dead-letter topics, and in all topics.
func (s *Store) Pending(ctx context.Context, dlqTopics []string) (counts []int64, sum int64, err error) {
	found, err := queryAll(ctx, s, "count pending messages", pgx.RowToStructByPos[dlq.TopicCount], pendingSQL, pgx.NamedArgs{})
	ofTopic := map[string]int64{}
	for _, p := range found {
		ofTopic[p.DLQTopic] = p.Messages
		sum += p.Messages
	}
	for _, topic := range dlqTopics {
		counts = append(counts, ofTopic[topic])
	}
	return counts, sum, err
}
