package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"dlqmanager/dlq"
)

// All who lock more than one of them lock a job's row first, then the lanes'. Messages
// come after those where nobody waits for them, and else before. The lock leaves the key free:
// a claim that has its lane refers to the job in the queues that it makes.
const lockBulkSQL = `SELECT FROM dlq.dlq_bulk_retries WHERE id = @id FOR NO KEY UPDATE`

const setStateSQL = `
UPDATE dlq.dlq_bulk_retries
SET state = @state, reason = @reason, updated_at = now()
WHERE id = @id AND state = ANY (@from::text[]) AND (state, reason) <> (@state, @reason::text)`

// setState changes the state of a job that is in one of the given states.
func (s *Store) setState(ctx context.Context, what string, id dlq.ID, state dlq.BulkState, reason string, from ...dlq.BulkState) error {
	return s.batch(ctx, what, func(batch *pgx.Batch) {
		batch.Queue(setStateSQL, pgx.NamedArgs{"id": uuid(id), "state": state, "reason": dlq.Text(reason), "from": from})
	})
}

// StopBulk lets nothing more be claimed for a job: of BulkPausing for now, of
// BulkCancelling for good. It waits for no page. A job that is further on already, or
// that has ended, stays as it is. It returns the bulk retry, or dlq.ErrNotFound.
func (s *Store) StopBulk(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkRetry, error) {
	if err := s.stop(ctx, id, state, reason); err != nil {
		return dlq.BulkRetry{}, err
	}
	return s.Bulk(ctx, id)
}

func (s *Store) stop(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) error {
	from := []dlq.BulkState{dlq.BulkRunning, dlq.BulkPausing}
	if state == dlq.BulkCancelling {
		from = append(from, dlq.BulkPaused, dlq.BulkCancelling)
	}
	return s.setState(ctx, "stop bulk retry", id, state, reason, from...)
}

// pagesSQL waits for the claims that are under way: one that began before the job was
// stopped may still claim a page.
const pagesSQL = `
WITH lane AS MATERIALIZED (
	SELECT locked.lane, locked.page
	FROM dlq.dlq_bulk_retries b
	CROSS JOIN generate_series(0, b.lanes - 1) AS n
	CROSS JOIN LATERAL (
		SELECT l.lane, l.page
		FROM dlq.dlq_bulk_retry_lanes l
		WHERE l.bulk_id = @bulk AND l.lane = n
			AND l.pages >= (SELECT max(pages) FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = @bulk AND lane = n)
		FOR UPDATE
	) AS locked
	WHERE b.id = @bulk
)
SELECT lane FROM lane WHERE page <> '{}' ORDER BY lane`

// releasePages gives back the pages that attempts have left behind which were cut
// short. Nothing can be claimed for the job meanwhile, so that none is left after. The
// messages go into a queue: the job takes them again if it goes on.
func (s *Store) releasePages(ctx context.Context, id dlq.ID) error {
	for {
		lanes, err := s.claimedLanes(ctx, id)
		if err != nil || len(lanes) == 0 {
			return err
		}
		for _, number := range lanes {
			lane, err := s.takeLane(ctx, id, number)
			if err == nil || errors.Is(err, dlq.ErrUnreadable) {
				err = s.ReleasePage(ctx, lane)
			}
			// Fenced by a newer attempt, it has to open the lane once more.
			if err != nil && !errors.Is(err, dlq.ErrFenced) {
				return err
			}
		}
	}
}

// claimedLanes are the lanes that have a page in hand.
func (s *Store) claimedLanes(ctx context.Context, id dlq.ID) (lanes []int, err error) {
	err = s.batch(ctx, "find claimed pages", func(batch *pgx.Batch) {
		batch.Queue(lanePlanSQL)
		queue(batch, &lanes, pgx.RowTo[int], pagesSQL, pgx.NamedArgs{"bulk": uuid(id)})
	})
	return lanes, err
}

const clearPageSQL = `
UPDATE dlq.dlq_bulk_retry_lanes SET page = '{}'
WHERE bulk_id = @bulk AND lane = @lane AND pages >= (SELECT max(pages) FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = @bulk AND lane = @lane)
	AND epoch = @epoch`

// ReleasePage gives back what the lane has claimed and not finalized, uncounted. It
// waits in a queue that is due at once. The errors are those of FinalizePage.
func (s *Store) ReleasePage(ctx context.Context, lane dlq.Lane) error {
	for {
		claim, err := s.ClaimedPage(ctx, lane, dlq.PageBytes)
		if err != nil {
			return err
		}
		if len(claim.Page) == 0 {
			break
		}
		if _, err = s.FinalizePage(ctx, lane, dlq.RequeuePage(claim.Page)); err != nil {
			return err
		}
	}
	return s.batch(ctx, "clear page", func(batch *pgx.Batch) { batch.Queue(clearPageSQL, laneArgs(&lane)) })
}

// PauseBulk stops a running bulk retry for now: nothing is claimed for it, and
// what it still owns goes back as it was, to be claimed again in its turn. On
// one that is paused it only replaces the reason; one that is being cancelled or has
// ended stays as it is. It returns the bulk retry, or dlq.ErrNotFound.
func (s *Store) PauseBulk(ctx context.Context, id dlq.ID, reason string) (dlq.BulkRetry, error) {
	stopped, err := s.StopBulk(ctx, id, dlq.BulkPausing, reason)
	if err != nil || stopped.State != dlq.BulkPausing && stopped.State != dlq.BulkPaused {
		return stopped, err
	}
	if err := s.releasePages(ctx, id); err != nil {
		return dlq.BulkRetry{}, err
	}
	if err := s.setState(ctx, "pause bulk retry", id, dlq.BulkPaused, reason, dlq.BulkPausing, dlq.BulkPaused); err != nil {
		return dlq.BulkRetry{}, err
	}
	return s.Bulk(ctx, id)
}

// resumeBulkSQL also lets every target be asked again at once: somebody may have mended
// it.
const resumeBulkSQL = `
WITH job AS (
	UPDATE dlq.dlq_bulk_retries
	SET state = 'RUNNING', reason = '', updated_at = now(), next_at = clock_timestamp()
	WHERE id = @id AND state IN ('PAUSING', 'PAUSED')
	RETURNING id
)
UPDATE dlq.dlq_bulk_retry_queues q
SET due_at = least(q.due_at, now())
FROM job
WHERE q.bulk_id = job.id AND q.lane = -1`

// ResumeBulk lets a paused bulk retry go on, also one that is still pausing. Any other
// stays as it is. It returns the bulk retry, or dlq.ErrNotFound.
func (s *Store) ResumeBulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error) {
	err := s.batch(ctx, "resume bulk retry", func(batch *pgx.Batch) { batch.Queue(resumeBulkSQL, pgx.NamedArgs{"id": uuid(id)}) })
	if err != nil {
		return dlq.BulkRetry{}, err
	}
	return s.Bulk(ctx, id)
}

const endBulkSQL = `
UPDATE dlq.dlq_bulk_retries b
SET state = @state, reason = @reason, ended_at = now(), updated_at = now(), counted = true,
	matched = greatest(b.matched, l.done), skipped = greatest(b.matched - l.done, 0)
FROM (
	SELECT COALESCE(sum(retried + failed + dead + skipped), 0)::bigint AS done
	FROM dlq.dlq_bulk_retry_lanes_now
	WHERE bulk_id = @id
) AS l
WHERE b.id = @id AND b.ended_at IS NULL`

// EndBulk ends a bulk retry: nothing can be claimed for it any more, what it
// still owns goes back as it was, and what was matched but not sent is counted
// as skipped. One that ends before it was counted has matched what it has done.
// Ending it again changes nothing; the first end counts. It returns the bulk
// retry, or dlq.ErrNotFound.
func (s *Store) EndBulk(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkRetry, error) {
	if !state.IsFinal() {
		return dlq.BulkRetry{}, fmt.Errorf("store: end bulk retry %s: %s is not an end", id, state)
	}
	// One that has found nothing more claims nothing more either.
	if state != dlq.BulkCompleted {
		if err := s.stop(ctx, id, dlq.BulkCancelling, reason); err != nil {
			return dlq.BulkRetry{}, err
		}
	}
	if err := s.releasePages(ctx, id); err != nil {
		return dlq.BulkRetry{}, err
	}
	err := s.batch(ctx, "end bulk retry", func(batch *pgx.Batch) {
		batch.Queue(endBulkSQL, pgx.NamedArgs{"id": uuid(id), "state": state, "reason": dlq.Text(reason)})
	})
	if err == nil {
		err = s.forgetQueues(ctx, id)
	}
	if err != nil {
		return dlq.BulkRetry{}, err
	}
	return s.Bulk(ctx, id)
}

// What a job has kept for itself is of no use once it has ended. There may be a lot, so
// it goes in bounded steps.
const (
	forgetWaitingSQL = `
DELETE FROM dlq.dlq_bulk_retry_waiting
WHERE ctid = ANY (ARRAY(SELECT ctid FROM dlq.dlq_bulk_retry_waiting WHERE bulk_id = @id LIMIT 10000))`

	forgetBlockedSQL = `
DELETE FROM dlq.dlq_bulk_retry_blocked_keys
WHERE ctid = ANY (ARRAY(SELECT ctid FROM dlq.dlq_bulk_retry_blocked_keys WHERE bulk_id = @id LIMIT 10000))`

	forgetQueuesSQL = `
DELETE FROM dlq.dlq_bulk_retry_queues
WHERE id = ANY (ARRAY(SELECT id FROM dlq.dlq_bulk_retry_queues WHERE bulk_id = @id LIMIT 10000))`
)

func (s *Store) forgetQueues(ctx context.Context, id dlq.ID) error {
	for _, sql := range []string{forgetWaitingSQL, forgetBlockedSQL, forgetQueuesSQL} {
		for deleted := int64(1); deleted > 0; {
			err := s.batch(ctx, "forget queues of bulk retry", func(batch *pgx.Batch) {
				batch.Queue(byIndexSQL)
				batch.Queue(sql, pgx.NamedArgs{"id": uuid(id)}).Exec(func(tag pgconn.CommandTag) error {
					deleted = tag.RowsAffected()
					return nil
				})
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
