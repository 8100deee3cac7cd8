package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// steerTimeout bounds a change of state: it holds locks that the lanes wait for.
const steerTimeout = time.Minute

const lockBulkSQL = `SELECT workflow_id, state FROM dlq.dlq_bulk_retries WHERE id = @id FOR UPDATE`

// steer changes the state of a job, whose row it locks. All who lock more than one of
// them lock the job's row first, then the lanes', then the messages'.
func (s *Store) steer(ctx context.Context, what string, id dlq.ID, args pgx.NamedArgs,
	change func(state dlq.BulkState, exec func(statements ...string) error) error,
) (dlq.BulkRetry, error) {
	ctx, cancel := context.WithTimeout(ctx, steerTimeout)
	defer cancel()
	args["id"], args["token"] = uuid(id), id.String()
	err := again(func() error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			var state dlq.BulkState
			var workflowID string
			if err := tx.QueryRow(ctx, lockBulkSQL, args).Scan(&workflowID, (*string)(&state)); err != nil {
				return err
			}
			args["workflow_id"] = workflowID
			return change(state, func(statements ...string) error {
				for _, sql := range statements {
					if _, err := tx.Exec(ctx, sql, args); err != nil {
						return err
					}
				}
				return nil
			})
		})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return dlq.BulkRetry{}, dlq.BulkNotFound(id)
	}
	if err != nil {
		return dlq.BulkRetry{}, failed(what, err)
	}
	return s.Bulk(ctx, id)
}

// closeLanesSQL waits for the pages that lanes are claiming or finalizing right now,
// and lets none claim any more. A claim that has waited for the lane meanwhile sees
// that it was rewound.
const closeLanesSQL = `UPDATE dlq.dlq_bulk_retry_lanes SET closed = true, rewinds = rewinds + 1 WHERE bulk_id = @id`

// returnClaimsSQL gives back all that the job still owns, as if it had never been
// claimed: the lanes go back to it, and it is dated back to the job's snapshot, so
// that it is in the scope again.
const returnClaimsSQL = `
WITH owned AS (
	SELECT id FROM dlq.dlq_messages
	WHERE status = 'RETRYING' AND workflow_id = @workflow_id AND owner_token = @token
	ORDER BY id
	FOR UPDATE
), m AS (
	UPDATE dlq.dlq_messages m
	SET status = 'PENDING', retry_count = greatest(m.retry_count - 1, 0), workflow_id = '', owner_token = '',
		last_retry_at = (SELECT max(a.started_at) FROM dlq.dlq_retry_attempts a WHERE a.message_id = m.id),
		updated_at = (SELECT frozen_at FROM dlq.dlq_bulk_retries WHERE id = @id)
	FROM owned
	WHERE m.id = owned.id
	RETURNING m.seq, m.key_hash
), rewound AS (
	UPDATE dlq.dlq_bulk_retry_lanes l
	SET cursor = least(l.cursor, lowest.seq - 1)
	FROM (
		SELECT m.key_hash % b.lanes AS lane, min(m.seq) AS seq
		FROM m, dlq.dlq_bulk_retries b
		WHERE b.id = @id
		GROUP BY 1
	) AS lowest
	WHERE l.bulk_id = @id AND l.lane = lowest.lane
)
UPDATE dlq.dlq_bulk_retries
SET allowance = allowance + (SELECT count(*) FROM m)
WHERE id = @id AND allowance IS NOT NULL`

const pauseBulkSQL = `
UPDATE dlq.dlq_bulk_retries
SET state = 'PAUSED', reason = @reason, updated_at = now()
WHERE id = @id AND (state, reason) <> ('PAUSED', @reason::text)`

// PauseBulk stops a running bulk retry for now: nothing is claimed for it, and
// what it still owns goes back as it was, to be claimed again in its turn. On
// one that is paused it only replaces the reason; one that has ended stays as it
// is. It returns the bulk retry, or dlq.ErrNotFound.
func (s *Store) PauseBulk(ctx context.Context, id dlq.ID, reason string) (dlq.BulkRetry, error) {
	args := pgx.NamedArgs{"reason": dlq.Text(reason)}
	return s.steer(ctx, "pause bulk retry", id, args, func(state dlq.BulkState, exec func(...string) error) error {
		switch state {
		case dlq.BulkRunning:
			return exec(closeLanesSQL, returnClaimsSQL, pauseBulkSQL)
		case dlq.BulkPaused:
			return exec(pauseBulkSQL)
		case dlq.BulkCompleted, dlq.BulkCancelled, dlq.BulkFailed:
		}
		return nil
	})
}

const resumeBulkSQL = `
WITH lanes AS (
	UPDATE dlq.dlq_bulk_retry_lanes SET closed = false WHERE bulk_id = @id
)
UPDATE dlq.dlq_bulk_retries
SET state = 'RUNNING', reason = '', updated_at = now(), next_at = clock_timestamp()
WHERE id = @id`

// ResumeBulk lets a paused bulk retry go on. Any other stays as it is. It
// returns the bulk retry, or dlq.ErrNotFound.
func (s *Store) ResumeBulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error) {
	return s.steer(ctx, "resume bulk retry", id, pgx.NamedArgs{}, func(state dlq.BulkState, exec func(...string) error) error {
		if state != dlq.BulkPaused {
			return nil
		}
		return exec(resumeBulkSQL)
	})
}

const endBulkSQL = `
UPDATE dlq.dlq_bulk_retries b
SET state = @state, reason = @reason, ended_at = now(), updated_at = now(), counted = true,
	matched = greatest(b.matched, l.done), skipped = greatest(b.matched - l.done, 0)
FROM (
	SELECT COALESCE(sum(retried + failed + dead + skipped), 0)::bigint AS done
	FROM dlq.dlq_bulk_retry_lanes
	WHERE bulk_id = @id
) AS l
WHERE b.id = @id`

// EndBulk ends a bulk retry: nothing can be claimed for it any more, what it
// still owns goes back as it was, and what was matched but not sent is counted
// as skipped. One that ends before it was counted has matched what it has done.
// Ending it again changes nothing; the first end counts. It returns the bulk
// retry, or dlq.ErrNotFound.
func (s *Store) EndBulk(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkRetry, error) {
	if !state.IsFinal() {
		return dlq.BulkRetry{}, fmt.Errorf("store: end bulk retry %s: %s is not an end", id, state)
	}
	args := pgx.NamedArgs{"state": state, "reason": dlq.Text(reason)}
	return s.steer(ctx, "end bulk retry", id, args, func(state dlq.BulkState, exec func(...string) error) error {
		if state.IsFinal() {
			return nil
		}
		return exec(closeLanesSQL, returnClaimsSQL, endBulkSQL)
	})
}

const noteBulkSQL = `
UPDATE dlq.dlq_bulk_retries
SET reason = @reason, updated_at = now()
WHERE id = @id AND state = 'RUNNING' AND reason <> @reason`

// NoteBulk records why a running bulk retry waits; an empty reason says that it
// no longer does. One that is paused or has ended keeps the reason for that.
func (s *Store) NoteBulk(ctx context.Context, id dlq.ID, reason string) error {
	return s.batch(ctx, "note bulk retry", func(batch *pgx.Batch) {
		batch.Queue(noteBulkSQL, pgx.NamedArgs{"id": uuid(id), "reason": dlq.Text(reason)})
	})
}
