package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// foldCountsSQL adds up to ten thousand changes to the sums, deletes them, and returns
// their number. Concurrent calls take different changes and lock the sums in the same
// order.
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
const maxFolded = 10_000

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
