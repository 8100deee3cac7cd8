package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

const archiveBatchSQL = `SELECT dlq.archive_dlq_messages_batch(now() - @microseconds::bigint * interval '1 microsecond', @limit::int)`

// ArchiveBatch moves at most limit messages that have been RESOLVED or DEAD for longer than
// olderThan into the archive, and returns how many. The next call continues where this one
// ended; zero means that nothing is left.
func (s *Store) ArchiveBatch(ctx context.Context, olderThan time.Duration, limit int) (int64, error) {
	return s.moveBatch(ctx, "archive messages", archiveBatchSQL, olderThan, limit)
}

const purgeBatchSQL = `
WITH chosen AS (
	SELECT id
	FROM dlq.dlq_messages_archive
	WHERE updated_at < now() - @microseconds::bigint * interval '1 microsecond'
	LIMIT @limit::int
	FOR UPDATE SKIP LOCKED
), bodies AS (
	DELETE FROM dlq.dlq_message_bodies b USING chosen WHERE b.message_id = chosen.id
), attempts AS (
	DELETE FROM dlq.dlq_retry_attempts a USING chosen WHERE a.message_id = chosen.id
), messages AS (
	DELETE FROM dlq.dlq_messages_archive m USING chosen WHERE m.id = chosen.id RETURNING m.id, m.dlq_topic, m.seq
), outbox AS (
	DELETE FROM dlq.dlq_exhausted_outbox o USING messages m WHERE o.dlq_topic = m.dlq_topic AND o.seq = m.seq AND o.message_id = m.id
)
SELECT count(*) FROM messages`

// PurgeBatch deletes at most limit archived messages that have not changed for
// longer than olderThan, with their bytes and attempts, and returns how many. They are not published any more.
func (s *Store) PurgeBatch(ctx context.Context, olderThan time.Duration, limit int) (int64, error) {
	return s.moveBatch(ctx, "purge messages", purgeBatchSQL, olderThan, limit)
}

func (s *Store) moveBatch(ctx context.Context, operation, sql string, olderThan time.Duration, limit int) (int64, error) {
	moved, _, err := queryOne(ctx, s, operation, pgx.RowTo[int64], sql, pgx.NamedArgs{"microseconds": olderThan.Microseconds(), "limit": limit})
	return moved, err
}
