package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

const nowSQL = `SELECT clock_timestamp()`

// Now is the time of the database's clock, from which all times in rows come.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	now, _, err := queryOne(ctx, s, "read the clock", pgx.RowTo[time.Time], nowSQL, pgx.NamedArgs{})
	return now.UTC(), err
}

// ownersSQL finds the owners of RETRYING messages outside of pages, unless the owner is an open job: single
// retries, and owners that another program may have written. It leaves out recent claims. A claim time in the
// future was written by hand, and is not left out, so that the message does not stay RETRYING.
const ownersSQL = `
SELECT DISTINCT m.workflow_id, m.owner_token
FROM dlq.dlq_messages m
WHERE m.status = 'RETRYING' AND NOT m.in_page
	AND COALESCE(m.last_retry_at, m.updated_at) NOT BETWEEN @claimed_before AND clock_timestamp()
	AND (m.workflow_id, m.owner_token) NOT IN (SELECT workflow_id, id::text FROM dlq.dlq_jobs WHERE ended_at IS NULL)
ORDER BY m.workflow_id, m.owner_token`

// strayPagesSQL lets Owners and lists find RETRYING messages that are marked as messages of a
// page and are in none: somebody edited the rows of a job by hand. The counts show whether
// there are any, so the statement normally reads only the messages of pages.
const strayPagesSQL = `
UPDATE dlq.dlq_messages
SET in_page = false
WHERE (SELECT COALESCE(sum(messages), 0) FROM dlq.dlq_topic_counts WHERE status = 'RETRYING')
		> (SELECT count(*) FROM dlq.dlq_messages WHERE status = 'RETRYING' AND id = ANY (ARRAY(SELECT id FROM dlq.dlq_retrying)))
	AND status = 'RETRYING' AND in_page AND id <> ALL (ARRAY(SELECT id FROM dlq.dlq_retrying WHERE id IS NOT NULL))`

// Owners returns the owners of RETRYING messages that were claimed before the given time, except the owners of
// JobOwners. Rows that were written by hand may have the zero owner.
func (s *Store) Owners(ctx context.Context, claimedBefore time.Time) ([]dlq.Owner, error) {
	err := s.batch(ctx, "find stray messages of pages", func(batch *pgx.Batch) {
		batch.Queue(byIndexSQL)
		batch.Queue(strayPagesSQL)
	})
	if err != nil {
		return nil, err
	}
	return queryAll(ctx, s, "list owners", pgx.RowToStructByPos[dlq.Owner], ownersSQL, pgx.NamedArgs{"claimed_before": claimedBefore})
}

// jobOwnersSQL reads no column that could be unreadable and so keep the other jobs from being closed.
const jobOwnersSQL = `
SELECT workflow_id, id::text
FROM dlq.dlq_jobs
WHERE ended_at IS NULL AND started_at NOT BETWEEN @started_before AND clock_timestamp()
ORDER BY started_at, id`

// JobOwners returns the owners of the jobs that have not ended and were started
// before the given time. The token of each is the id of its job.
func (s *Store) JobOwners(ctx context.Context, startedBefore time.Time) ([]dlq.Owner, error) {
	return queryAll(ctx, s, "list workflows of jobs", pgx.RowToStructByPos[dlq.Owner], jobOwnersSQL, pgx.NamedArgs{"started_before": startedBefore})
}

// releasableSQL finds up to a thousand messages of an owner: a single statement by hand can leave a million messages,
// whose end would take longer than the statement timeout. It finds messages by the index of ownersSQL.
const releasableSQL = `
SELECT id
FROM dlq.dlq_messages
WHERE status = 'RETRYING' AND NOT in_page AND workflow_id = @workflow_id AND owner_token = @token
LIMIT 1000`

// Release ends every retry of an owner that no longer exists, as failed with the given
// reason, and returns how many there were. After an error some of them may be released.
func (s *Store) Release(ctx context.Context, owner dlq.Owner, reason string) (released int64, err error) {
	args := s.finalizeArgs(owner, dlq.Outcome{Result: dlq.ResultFailed, Category: dlq.CategoryTransient, Error: reason})
	for {
		ids, err := queryAll(ctx, s, "find messages to release", pgx.RowTo[[16]byte], releasableSQL, args, byIndexSQL)
		if err != nil || len(ids) == 0 {
			return released, err
		}
		args["ids"] = ids
		var ended [][16]byte
		err = s.batch(ctx, "release messages", func(batch *pgx.Batch) {
			batch.Queue(lockLateSQL, args)
			queueQuery(batch, &ended, pgx.RowTo[[16]byte], finalizeSQL, args)
		})
		if err != nil {
			return released, err
		}
		released += int64(len(ended))
	}
}
