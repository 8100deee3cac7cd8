package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// unpublishedSQL finds each topic of the outbox by a step in the primary key, and counts up to
// @most rows of each topic. So the cost does not grow with the number of messages.
const unpublishedSQL = `
WITH RECURSIVE topic (name) AS (
	(SELECT dlq_topic FROM dlq.dlq_exhausted_outbox ORDER BY dlq_topic LIMIT 1)
	UNION ALL
	SELECT (SELECT o.dlq_topic FROM dlq.dlq_exhausted_outbox o WHERE o.dlq_topic > topic.name ORDER BY o.dlq_topic LIMIT 1)
	FROM topic
	WHERE topic.name IS NOT NULL
)
SELECT name, (SELECT count(*) FROM (SELECT FROM dlq.dlq_exhausted_outbox o WHERE o.dlq_topic = topic.name LIMIT @most) AS counted)
FROM topic
WHERE name IS NOT NULL
ORDER BY name`

// Unpublished counts the exhausted messages that are not published yet. The count of a topic
// stops at dlq.CountLimit.
func (s *Store) Unpublished(ctx context.Context) ([]dlq.TopicCount, error) {
	return s.unpublished(ctx, dlq.CountLimit)
}

// ExhaustedTopics returns the dead-letter topics with messages that Unpublished counts.
func (s *Store) ExhaustedTopics(ctx context.Context) ([]string, error) {
	counts, err := s.unpublished(ctx, 1)
	return column(counts, func(c *dlq.TopicCount) string { return c.DLQTopic }), err
}

func (s *Store) unpublished(ctx context.Context, most int) ([]dlq.TopicCount, error) {
	return queryAll(ctx, s, "count exhausted messages", pgx.RowToStructByPos[dlq.TopicCount], unpublishedSQL, pgx.NamedArgs{"most": most}, byIndexSQL)
}

// publishLockSQL takes publishLock, and makes statements use indexes. It also lets the transaction
// be idle for longer than a publish takes.
const publishLockSQL = `
SELECT pg_try_advisory_xact_lock(@lock), set_config('idle_in_transaction_session_timeout', '40s', true),
	set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)`

// exhaustedSQL reads up to 100 messages of a topic after the given message, with up to @bytes bytes in all. The
// first message may be larger. A message that was written by hand has no recorded size. If it has no body, its
// payload is its value. Bodies of archived messages are in the same table as all other bodies.
const exhaustedSQL = `
WITH page AS MATERIALIZED (
	SELECT o.*, m.id IS NULL AS deleted, m.payload,
		CASE WHEN m.size > 0 THEN m.size
			ELSE COALESCE((SELECT COALESCE(octet_length(b.key), 0) + COALESCE(octet_length(b.value), 0) + octet_length(b.headers)
				FROM dlq.dlq_message_bodies b WHERE b.message_id = m.id), octet_length(m.payload::text), 0) END AS size
	FROM (
		SELECT *
		FROM dlq.dlq_exhausted_outbox
		WHERE dlq_topic = @topic AND (seq, message_id) > (@seq, @id::uuid)
		ORDER BY seq, message_id
		LIMIT 100
	) AS o
	LEFT JOIN LATERAL (SELECT * FROM ` + everyMessage + ` AS m WHERE m.id = o.message_id LIMIT 1) AS m ON true
), measured AS (
	SELECT p.*, sum(p.size) OVER (ORDER BY p.seq, p.message_id) AS bytes, row_number() OVER (ORDER BY p.seq, p.message_id) AS place
	FROM page p
)
SELECT p.message_id, p.seq, p.ended_at, p.retry_count, p.max_retries, p.error, p.deleted,
	b.key, CASE WHEN b.message_id IS NULL THEN convert_to(p.payload::text, 'UTF8') ELSE b.value END, b.headers
FROM measured p
LEFT JOIN LATERAL (
	SELECT * FROM dlq.dlq_message_bodies b WHERE b.message_id = p.message_id AND NOT p.deleted OFFSET 0
) AS b ON true
WHERE p.bytes <= @bytes::bigint OR p.place = 1
ORDER BY p.seq, p.message_id`

// publishedSQL deletes published messages from the outbox, unless they were revived and exhausted again meanwhile.
// It skips locked rows, whose messages are ending again or being deleted, so it cannot be part of a deadlock.
const publishedSQL = `
WITH published AS MATERIALIZED (
	SELECT o.dlq_topic, o.seq, o.message_id
	FROM unnest(@ids::uuid[], @seqs::bigint[], @ended::timestamptz[]) AS p (message_id, seq, ended_at)
	JOIN dlq.dlq_exhausted_outbox o ON o.dlq_topic = @topic AND o.seq = p.seq AND o.message_id = p.message_id
	WHERE o.ended_at = p.ended_at
	FOR UPDATE OF o SKIP LOCKED
)
DELETE FROM dlq.dlq_exhausted_outbox o
USING published p
WHERE o.dlq_topic = p.dlq_topic AND o.seq = p.seq AND o.message_id = p.message_id`

// PublishExhausted reads the next exhausted messages of a topic, after the given message, and passes them to
// publish. It deletes from the outbox the messages for which publish returns true, and returns all messages that
// it has passed. One worker publishes at a time; other workers get dlq.ErrBlocked.
//
// The lock and the deletion are in one transaction, which is open while publish runs. So when a worker dies,
// another worker continues at once, and publishes the messages again that were not deleted.
func (s *Store) PublishExhausted(ctx context.Context, topic string, after dlq.Exhausted, publish func([]dlq.Exhausted) []bool) ([]dlq.Exhausted, error) {
	const operation = "publish exhausted messages"
	beginning, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	tx, err := s.pool.Begin(beginning)
	if err != nil {
		return nil, wrap(operation, err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = tx.Rollback(ctx) // after a commit this does nothing
	}()
	page, err := readExhausted(beginning, tx, topic, after)
	if err != nil {
		return nil, wrap(operation, err)
	}
	if len(page) == 0 {
		return nil, nil
	}
	args := publishedArgs(topic, page, publish(page))
	// Messages that were published must be deleted, also when the caller is stopping.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if _, err = tx.Exec(ending, publishedSQL, args); err == nil {
		err = tx.Commit(ending)
	}
	if err != nil {
		return nil, wrap(operation, err)
	}
	return page, nil
}

func readExhausted(ctx context.Context, tx pgx.Tx, topic string, after dlq.Exhausted) (page []dlq.Exhausted, err error) {
	var locked bool
	batch := &pgx.Batch{}
	batch.Queue(publishLockSQL, pgx.NamedArgs{"lock": publishLock}).
		QueryRow(func(row pgx.Row) error { return row.Scan(&locked, nil, nil, nil) })
	queueQuery(batch, &page, scanExhausted, exhaustedSQL,
		pgx.NamedArgs{"topic": topic, "seq": after.Seq, "id": uuid(after.ID), "bytes": dlq.PageBytes})
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, err
	}
	if !locked {
		return nil, dlq.ErrBlocked
	}
	return page, nil
}

func scanExhausted(row pgx.CollectableRow) (e dlq.Exhausted, err error) {
	var headers []byte
	err = row.Scan((*[16]byte)(&e.ID), &e.Seq, instant{&e.EndedAt}, &e.RetryCount, &e.MaxRetries, &e.Error, &e.Deleted,
		&e.Record.Key, &e.Record.Value, &headers)
	if err != nil {
		return e, err
	}
	e.Record.Headers, e.Unreadable = readHeaders(e.ID, headers)
	return e, nil
}

func publishedArgs(topic string, page []dlq.Exhausted, published []bool) pgx.NamedArgs {
	done := make([]dlq.Exhausted, 0, len(page))
	for i := range page {
		if published[i] {
			done = append(done, page[i])
		}
	}
	return pgx.NamedArgs{
		"topic": topic,
		"ids":   column(done, func(e *dlq.Exhausted) [16]byte { return e.ID }),
		"seqs":  column(done, func(e *dlq.Exhausted) int64 { return e.Seq }),
		"ended": column(done, func(e *dlq.Exhausted) time.Time { return e.EndedAt }),
	}
}
