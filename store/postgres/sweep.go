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

// ownersSQL finds the owners of RETRYING messages that are in no page, except jobs that have not ended. These
// owners are single retries, and owners that another program may have written. Recent claims are left out. A
// claim time in the future was written by hand, and does not count as recent: its message would stay RETRYING.
const ownersSQL = `
SELECT DISTINCT m.workflow_id, m.owner_token
FROM dlq.dlq_messages m
WHERE m.status = 'RETRYING' AND NOT m.in_page
	AND COALESCE(m.last_retry_at, m.updated_at) NOT BETWEEN @claimed_before AND clock_timestamp()
	AND (m.workflow_id, m.owner_token) NOT IN (SELECT workflow_id, id::text FROM dlq.dlq_jobs WHERE ended_at IS NULL)
ORDER BY m.workflow_id, m.owner_token`

// strayPagesSQL corrects RETRYING messages that are marked in_page and are in the page of no lane, so
// that Owners and lists find them. Such messages exist if somebody edited the rows of a job by hand.
// The counts show whether there are any, so the statement normally reads only the messages of pages.
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

// jobOwnersSQL reads no column that could be unreadable. One unreadable row would keep all other jobs from being closed.
const jobOwnersSQL = `
SELECT workflow_id, id::text
FROM dlq.dlq_jobs
WHERE ended_at IS NULL AND started_at NOT BETWEEN @started_before AND clock_timestamp()
ORDER BY started_at, id`

// JobOwners returns the owners of the jobs that have not ended and were started
// before the given time. The token of an owner is the id of the job.
func (s *Store) JobOwners(ctx context.Context, startedBefore time.Time) ([]dlq.Owner, error) {
	return queryAll(ctx, s, "list workflows of jobs", pgx.RowToStructByPos[dlq.Owner], jobOwnersSQL, pgx.NamedArgs{"started_before": startedBefore})
}

// releasableSQL finds up to a thousand messages of an owner. A statement by hand may have given a million messages to one
// owner. To end all of them at once would take longer than a call may take. The statement uses the index of ownersSQL.
const releasableSQL = `
SELECT id
FROM dlq.dlq_messages
WHERE status = 'RETRYING' AND NOT in_page AND workflow_id = @workflow_id AND owner_token = @token
LIMIT 1000`

// Release ends every retry of an owner that no longer exists. The retries have failed with the given
// reason. The result is the number of these retries. After an error, some of the retries may have ended.
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
