package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

const nowSQL = `SELECT clock_timestamp()`

// Now is the time by the database's clock, which all times in rows are told by.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	now, _, err := one(ctx, s, "read the clock", pgx.RowTo[time.Time], nowSQL, pgx.NamedArgs{})
	return now.UTC(), err
}

// ownersSQL leaves out what was claimed of late. A claim of the future is none of
// ours: people write such rows by hand, and would otherwise have them RETRYING for
// ever.
const ownersSQL = `
SELECT DISTINCT workflow_id, owner_token
FROM dlq.dlq_messages
WHERE status = 'RETRYING' AND COALESCE(last_retry_at, updated_at) NOT BETWEEN @claimed_before AND clock_timestamp()
ORDER BY workflow_id, owner_token`

// Owners returns the workflows that own RETRYING messages which were claimed
// before the given time. Rows that were written by hand may have none: the zero
// owner stands for those.
func (s *Store) Owners(ctx context.Context, claimedBefore time.Time) ([]dlq.Owner, error) {
	return all(ctx, s, "list owners", pgx.RowToStructByPos[dlq.Owner], ownersSQL, pgx.NamedArgs{"claimed_before": claimedBefore})
}

// bulkOwnersSQL reads nothing that could be unreadable: one row must not keep the
// others from being closed.
const bulkOwnersSQL = `
SELECT b.workflow_id, b.id::text
FROM dlq.dlq_bulk_retries b
WHERE b.ended_at IS NULL AND b.started_at NOT BETWEEN @started_before AND clock_timestamp()
ORDER BY b.started_at, b.id`

// BulkOwners returns the workflows of the bulk retries that have not ended and were
// started before the given time. Each one's token is the id of its bulk retry.
func (s *Store) BulkOwners(ctx context.Context, startedBefore time.Time) ([]dlq.Owner, error) {
	return all(ctx, s, "list workflows of bulk retries", pgx.RowToStructByPos[dlq.Owner], bulkOwnersSQL,
		pgx.NamedArgs{"started_before": startedBefore})
}

// releaseSQL ends retries as failed, a thousand at once: one statement by hand can
// leave a million behind, which would take longer than any statement may. It locks
// in one order, that of the index which finds them, so that two that release never wait
// for each other.
const releaseSQL = `
WITH owned AS (
	SELECT id FROM dlq.dlq_messages
	WHERE status = 'RETRYING' AND workflow_id = @workflow_id AND owner_token = @token
	ORDER BY updated_at, id
	LIMIT 1000
	FOR UPDATE
), m AS (
	UPDATE dlq.dlq_messages m
	SET status = CASE WHEN m.retry_count < m.max_retries THEN 'PENDING' ELSE 'DEAD' END, updated_at = now()
	FROM owned
	WHERE m.id = owned.id
	RETURNING m.*
), attempt AS (
	INSERT INTO dlq.dlq_retry_attempts (message_id, number, workflow_id, owner_token, started_at, result, category, error)
	SELECT m.id, m.retry_count, m.workflow_id, m.owner_token, COALESCE(m.last_retry_at, m.updated_at), 'failed', 'transient', @error
	FROM m
)
SELECT count(*) FROM m`

// Release ends every retry of an owner who is gone, as failed for the given
// reason, and returns how many there were. After an error a part may be released.
func (s *Store) Release(ctx context.Context, owner dlq.Owner, reason string) (released int64, err error) {
	args := pgx.NamedArgs{"workflow_id": owner.WorkflowID, "token": owner.Token, "error": dlq.Text(reason)}
	for {
		n, _, err := one(ctx, s, "release messages", pgx.RowTo[int64], releaseSQL, args)
		released += n
		if err != nil || n == 0 {
			return released, err
		}
	}
}
