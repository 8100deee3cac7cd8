package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// foldCountsSQL adds up to a thousand rows of changes to the sums of topics and groups, deletes
// them, and returns their number. Concurrent calls take different changes and lock the sums
// in the same order. All arrivals of a group count for the hour of the newest of them.
const foldCountsSQL = `
WITH batch AS (
	DELETE FROM dlq.dlq_count_batches
	WHERE ctid = ANY (ARRAY(SELECT ctid FROM dlq.dlq_count_batches LIMIT 1000 FOR UPDATE SKIP LOCKED))
	RETURNING dlq_topic, original_topic, status, group_ids, messages, arrived_at
), change AS MATERIALIZED (
	SELECT b.dlq_topic, b.original_topic, b.status, c.group_id, c.messages, c.arrived_at
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
	INSERT INTO dlq.dlq_group_arrivals AS a (group_id, arrived, last_seen, hour, hour_count, previous_count)
	SELECT group_id, sum(messages), max(arrived_at), date_bin('1 hour', max(arrived_at), 'epoch'), sum(messages), 0
	FROM change
	WHERE group_id IS NOT NULL AND arrived_at IS NOT NULL
	GROUP BY group_id
	ORDER BY group_id
	ON CONFLICT (group_id) DO UPDATE SET
		arrived = a.arrived + EXCLUDED.arrived,
		last_seen = greatest(a.last_seen, EXCLUDED.last_seen),
		hour = greatest(a.hour, EXCLUDED.hour),
		hour_count = EXCLUDED.hour_count + CASE WHEN EXCLUDED.hour <= a.hour THEN a.hour_count ELSE 0 END,
		previous_count = CASE WHEN EXCLUDED.hour <= a.hour THEN a.previous_count
			WHEN EXCLUDED.hour = a.hour + interval '1 hour' THEN a.hour_count
			ELSE 0 END
)
SELECT count(*) FROM batch`

// Empty counts of a group stay as long as the group, since they name the topics that its messages
// were in.
const deleteEmptyCountsSQL = `DELETE FROM dlq.dlq_topic_count_sums WHERE messages = 0`

// FoldCounts adds the changes since the last call to the sums, so that counts stay cheap to
// read. Their values do not change.
func (s *Store) FoldCounts(ctx context.Context) error {
	for folded := int64(maxFolded); folded == maxFolded; {
		err := s.batch(ctx, "fold counts", func(batch *pgx.Batch) {
			batch.Queue(byIndexSQL) // a plan for few changes would be too slow for many
			batch.Queue(foldCountsSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&folded) })
		})
		if err != nil {
			return err
		}
	}
	return s.batch(ctx, "delete empty counts", func(batch *pgx.Batch) { batch.Queue(deleteEmptyCountsSQL) })
}

// maxFolded is the limit in foldCountsSQL.
const maxFolded = 1000

const pendingSQL = `
SELECT dlq_topic, sum(messages)::bigint
FROM dlq.dlq_topic_counts
WHERE status = 'PENDING'
GROUP BY dlq_topic`

// Pending returns the number of PENDING messages in each of these dead-letter topics, and
// the number in all topics.
func (s *Store) Pending(ctx context.Context, dlqTopics []string) (counts []int64, sum int64, err error) {
	type pending struct {
		Topic    string
		Messages int64
	}
	found, err := queryAll(ctx, s, "count pending messages", pgx.RowToStructByPos[pending], pendingSQL, pgx.NamedArgs{})
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
