package store

import (
	"context"
	"fmt"
	"time"
)

// ArchiveBatch moves at most limit messages that have been RESOLVED or DEAD for
// longer than olderThan into the archive and returns how many. Zero means that
// nothing is due; the next call goes on where this one ended.
func (p *Postgres) ArchiveBatch(ctx context.Context, olderThan time.Duration, limit int) (int64, error) {
	if err := checkBatch(olderThan, limit); err != nil {
		return 0, err
	}
	return p.batch(ctx, "archive messages",
		`SELECT dlq.archive_dlq_messages_batch(now() - $1::bigint * interval '1 microsecond', $2::int)`, olderThan, limit)
}

// PurgeBatch deletes at most limit archived messages that have not changed for
// longer than olderThan, with their bytes and attempts, and returns how many.
func (p *Postgres) PurgeBatch(ctx context.Context, olderThan time.Duration, limit int) (int64, error) {
	if err := checkBatch(olderThan, limit); err != nil {
		return 0, err
	}
	return p.batch(ctx, "purge messages", `
		WITH chosen AS (
			SELECT id
			FROM dlq.dlq_messages_archive
			WHERE updated_at < now() - $1::bigint * interval '1 microsecond'
			LIMIT $2::int
			FOR UPDATE SKIP LOCKED
		), bodies AS (
			DELETE FROM dlq.dlq_message_bodies b USING chosen WHERE b.message_id = chosen.id
		), attempts AS (
			DELETE FROM dlq.dlq_retry_attempts a USING chosen WHERE a.message_id = chosen.id
		), messages AS (
			DELETE FROM dlq.dlq_messages_archive m USING chosen WHERE m.id = chosen.id RETURNING m.id
		)
		SELECT count(*) FROM messages`, olderThan, limit)
}

func checkBatch(olderThan time.Duration, limit int) error {
	if olderThan < 0 || limit <= 0 {
		return fmt.Errorf("store: a batch of %d messages older than %s: both must be positive", limit, olderThan)
	}
	return nil
}

func (p *Postgres) batch(ctx context.Context, what, sql string, olderThan time.Duration, limit int) (moved int64, err error) {
	err = again(func() error {
		return p.pool.QueryRow(ctx, sql, olderThan.Microseconds(), limit).Scan(&moved)
	})
	if err != nil {
		return 0, failed(what, err)
	}
	return moved, nil
}
