package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

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
