package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

const nowSQL = `SELECT clock_timestamp()`

// Now is the time of the database's clock. All times in rows come from it.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	now, _, err := queryOne(ctx, s, "read the clock", pgx.RowTo[time.Time], nowSQL, pgx.NamedArgs{})
	return now.UTC(), err
}

// ownersSQL finds the owners of single retries, and owners that cannot be a workflow of the
// manager. It leaves out recent claims. A claim time in the future was written by hand;
// such a message would otherwise stay RETRYING.
const ownersSQL = `
SELECT DISTINCT workflow_id, owner_token
FROM dlq.dlq_messages
WHERE status = 'RETRYING' AND workflow_id NOT LIKE 'retry-all-%'
	AND COALESCE(last_retry_at, updated_at) NOT BETWEEN @claimed_before AND clock_timestamp()
ORDER BY workflow_id, owner_token`

// strayOwnersSQL finds messages that name a bulk retry as their owner and are in none of
// its pages, because they were written by hand. BulkOwners returns the owners of the pages.
// The statement reads the messages of bulk retries only when the counts show that there are
// such messages. Otherwise it would also read the dead row versions of all messages that
// bulk retries have claimed since the last vacuum.
const strayOwnersSQL = `
WITH in_pages AS MATERIALIZED (
	SELECT DISTINCT m.id
	FROM dlq.dlq_bulk_retries b
	JOIN dlq.dlq_bulk_retry_lanes_now l ON l.bulk_id = b.id
	CROSS JOIN unnest(l.page) AS p (id)
	JOIN dlq.dlq_messages m ON m.id = p.id
	WHERE b.ended_at IS NULL AND CASE WHEN m.status = 'RETRYING' AND m.workflow_id LIKE 'retry-all-%' THEN true ELSE false END
), stray AS MATERIALIZED (
	SELECT (SELECT COALESCE(sum(messages), 0) FROM dlq.dlq_topic_counts WHERE status = 'RETRYING')
		- (SELECT count(*) FROM dlq.dlq_messages WHERE status = 'RETRYING' AND workflow_id NOT LIKE 'retry-all-%')
		- (SELECT count(*) FROM in_pages) AS n
)
SELECT DISTINCT m.workflow_id, m.owner_token
FROM (SELECT DISTINCT dlq_topic FROM dlq.dlq_topic_counts WHERE status = 'RETRYING') AS c
JOIN dlq.dlq_messages m ON m.dlq_topic = c.dlq_topic AND m.status = 'RETRYING'
WHERE (SELECT n FROM stray) <> 0
	AND m.workflow_id LIKE 'retry-all-%' AND COALESCE(m.last_retry_at, m.updated_at) NOT BETWEEN @claimed_before AND clock_timestamp()
ORDER BY workflow_id, owner_token`

// Owners returns the owners of RETRYING messages that were claimed before the given time,
// except those of BulkOwners. Rows that were written by hand may have none, which is the
// zero owner. With an error it returns the owners found so far.
func (s *Store) Owners(ctx context.Context, claimedBefore time.Time) ([]dlq.Owner, error) {
	args := pgx.NamedArgs{"claimed_before": claimedBefore}
	owners, err := queryAll(ctx, s, "list owners", pgx.RowToStructByPos[dlq.Owner], ownersSQL, args)
	if err != nil {
		return nil, err
	}
	var stray []dlq.Owner
	err = s.batch(ctx, "list owners of stray messages", func(batch *pgx.Batch) {
		batch.Queue(byIndexSQL)
		queueQuery(batch, &stray, pgx.RowToStructByPos[dlq.Owner], strayOwnersSQL, args)
	})
	return append(owners, stray...), err
}

// bulkOwnersSQL reads no column that could be unreadable: one row must not keep the others
// from being closed.
const bulkOwnersSQL = `
SELECT b.workflow_id, b.id::text
FROM dlq.dlq_bulk_retries b
WHERE b.ended_at IS NULL AND b.started_at NOT BETWEEN @started_before AND clock_timestamp()
ORDER BY b.started_at, b.id`

// BulkOwners returns the owners of the bulk retries that have not ended and were started
// before the given time. The token of each is the id of its bulk retry.
func (s *Store) BulkOwners(ctx context.Context, startedBefore time.Time) ([]dlq.Owner, error) {
	return queryAll(ctx, s, "list workflows of bulk retries", pgx.RowToStructByPos[dlq.Owner], bulkOwnersSQL,
		pgx.NamedArgs{"started_before": startedBefore})
}

// releaseSQL ends up to a thousand retries of each kind as failed. A single statement by
// hand can leave a million such messages, which would take longer than the statement
// timeout. It finds them as Owners does, and locks them in the order of their ids, so that
// two calls do not deadlock.
const releaseSQL = `
WITH found AS MATERIALIZED (
	(SELECT id
	FROM dlq.dlq_messages
	WHERE status = 'RETRYING' AND workflow_id NOT LIKE 'retry-all-%' AND workflow_id = @workflow_id AND owner_token = @token
	LIMIT 1000)
	UNION ALL
	(SELECT m.id
	FROM (SELECT DISTINCT dlq_topic FROM dlq.dlq_topic_counts WHERE status = 'RETRYING') AS c
	JOIN dlq.dlq_messages m ON m.dlq_topic = c.dlq_topic AND m.status = 'RETRYING'
	WHERE @workflow_id::text LIKE 'retry-all-%'
		AND m.workflow_id = @workflow_id AND m.owner_token = @token
	LIMIT 1000)
), owned AS (
	SELECT m.id
	FROM found
	JOIN dlq.dlq_messages m ON m.id = found.id
	WHERE CASE WHEN m.status = 'RETRYING' AND m.workflow_id = @workflow_id AND m.owner_token = @token THEN true ELSE false END
	ORDER BY m.id
	FOR UPDATE OF m
), m AS (
	UPDATE dlq.dlq_messages m
	SET status = CASE WHEN m.retry_count < m.max_retries THEN 'PENDING' ELSE 'DEAD' END,
		resolution = CASE WHEN m.retry_count < m.max_retries THEN NULL ELSE 'exhausted' END,
		updated_at = now()
	FROM owned
	WHERE m.id = owned.id
	RETURNING m.*
), attempt AS (
	INSERT INTO dlq.dlq_retry_attempts (message_id, number, workflow_id, owner_token, started_at, result, category, error)
	SELECT m.id, m.retry_count, m.workflow_id, m.owner_token, COALESCE(m.last_retry_at, m.updated_at), 'failed', 'transient', @error
	FROM m
), exhausted AS (
	INSERT INTO dlq.dlq_exhausted_outbox (dlq_topic, seq, message_id, retry_count, max_retries, error)
	SELECT m.dlq_topic, m.seq, m.id, m.retry_count, m.max_retries, @error
	FROM m
	WHERE @outbox::bool AND m.resolution = 'exhausted' AND m.dlq_topic <> ''
	ON CONFLICT (dlq_topic, seq, message_id) DO UPDATE
	SET ended_at = now(), retry_count = EXCLUDED.retry_count, max_retries = EXCLUDED.max_retries, error = EXCLUDED.error
)
SELECT count(*) FROM m`

// Release ends every retry of an owner that no longer exists, as failed with the given
// reason, and returns how many there were. After an error some of them may be released.
func (s *Store) Release(ctx context.Context, owner dlq.Owner, reason string) (released int64, err error) {
	args := pgx.NamedArgs{"workflow_id": owner.WorkflowID, "token": owner.Token, "error": dlq.StorableText(reason), "outbox": s.Outbox}
	for {
		var n int64
		err := s.batch(ctx, "release messages", func(batch *pgx.Batch) {
			batch.Queue(byIndexSQL)
			batch.Queue(releaseSQL, args).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
		})
		released += n
		if err != nil || n == 0 {
			return released, err
		}
	}
}
