package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"dlqmanager/dlq"
)

// lockBulkSQL locks the row of a job. Every transaction locks the job's row before the
// rows of its lanes. Claims lock messages last and skip locked messages; finalizing locks
// messages first, with waits for them. NO KEY allows the foreign keys of the
// queues that a claim of another lane inserts.
const lockBulkSQL = `SELECT FROM dlq.dlq_bulk_retries WHERE id = @id FOR NO KEY UPDATE`

const setStateSQL = `
WITH changed AS (
	UPDATE dlq.dlq_bulk_retries
	SET state = @state, reason = @reason, updated_at = now()
	WHERE id = @id AND state = ANY (@from::text[]) AND (state, reason) <> (@state, @reason::text)
	RETURNING id, topic
) /* audit */
SELECT id, topic FROM changed`

// changeBulk runs a statement that returns the bulk retry if it has changed it. It returns the bulk
// retry in any case, or dlq.ErrNotFound.
func (s *Store) changeBulk(ctx context.Context, operation, sql string, id dlq.ID, args pgx.NamedArgs) (dlq.BulkRetry, error) {
	args["id"] = uuid(id)
	if err := s.changeJob(ctx, operation, dlq.TargetBulkRetry, sql, args); err != nil {
		return dlq.BulkRetry{}, err
	}
	return s.Bulk(ctx, id)
}

// setState changes the state of a job that is in any of the given states.
func (s *Store) setState(ctx context.Context, operation string, id dlq.ID, state dlq.BulkState, reason string, from ...dlq.BulkState) (dlq.BulkRetry, error) {
	return s.changeBulk(ctx, operation, setStateSQL, id, pgx.NamedArgs{"state": state, "reason": dlq.StorableText(reason), "from": from})
}

// StopBulk stops the claims of a job. With BulkPausing the job can be resumed, with
// BulkCancelling the job cannot. StopBulk does not wait for claimed pages. A job in a later
// state, or a job that has ended, does not change. The result is the bulk retry, or
// dlq.ErrNotFound.
func (s *Store) StopBulk(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkRetry, error) {
	from := []dlq.BulkState{dlq.BulkRunning, dlq.BulkPausing}
	if state == dlq.BulkCancelling {
		from = append(from, dlq.BulkPaused, dlq.BulkCancelling)
	}
	return s.setState(ctx, "stop bulk retry", id, state, reason, from...)
}

// claimedLanesSQL locks the lanes, and so waits for claims that began before the job was
// stopped and may still claim a page. At the end of the job, the lock also waits for late
// deliveries, which the end counts.
const claimedLanesSQL = `
WITH lane AS MATERIALIZED (
	SELECT locked.lane, locked.page
	FROM dlq.dlq_bulk_retries b
	CROSS JOIN generate_series(0, least(greatest(b.lanes, 0), 1024) - 1) AS n
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

// releasePages requeues the pages that interrupted attempts left behind. Nothing can be
// claimed for the job meanwhile, so no page is left afterwards. A resumed job
// claims the messages from their queue.
func (s *Store) releasePages(ctx context.Context, id dlq.ID) error {
	for {
		lanes, err := s.claimedLanes(ctx, id)
		if err != nil || len(lanes) == 0 {
			return err
		}
		for _, number := range lanes {
			lane, err := s.fenceLane(ctx, id, number)
			if err == nil || errors.Is(err, dlq.ErrSpecUnreadable) {
				err = s.ReleasePage(ctx, lane)
			}
			// After ErrFenced, by a newer attempt, the next round fences that attempt.
			if err != nil && !errors.Is(err, dlq.ErrFenced) {
				return err
			}
		}
	}
}

// claimedLanes are the lanes that have a claimed page.
func (s *Store) claimedLanes(ctx context.Context, id dlq.ID) (lanes []int, err error) {
	err = s.batch(ctx, "find claimed pages", func(batch *pgx.Batch) {
		batch.Queue(lanePlanSQL)
		queueQuery(batch, &lanes, pgx.RowTo[int], claimedLanesSQL, pgx.NamedArgs{"bulk": uuid(id)})
	})
	return lanes, err
}

const clearPageSQL = `
UPDATE dlq.dlq_bulk_retry_lanes SET page = '{}'
WHERE bulk_id = @bulk AND lane = @lane AND pages >= (SELECT max(pages) FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = @bulk AND lane = @lane)
	AND epoch = @epoch`

// ReleasePage requeues the messages that the lane has claimed and not finalized, uncounted.
// Their queue is due at once. The errors come from FinalizePage.
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

// PauseBulk pauses a running bulk retry: nothing is claimed for it, and the pages that it
// still owns are requeued. For a paused job PauseBulk only replaces the reason. A job that is
// being cancelled or has ended does not change. The result is the bulk retry, or
// dlq.ErrNotFound.
func (s *Store) PauseBulk(ctx context.Context, id dlq.ID, reason string) (dlq.BulkRetry, error) {
	stopped, err := s.StopBulk(dlq.WithoutOperation(ctx), id, dlq.BulkPausing, reason)
	if err != nil || stopped.State != dlq.BulkPausing && stopped.State != dlq.BulkPaused {
		return stopped, err
	}
	if err := s.releasePages(ctx, id); err != nil {
		return dlq.BulkRetry{}, err
	}
	return s.setState(ctx, "pause bulk retry", id, dlq.BulkPaused, reason, dlq.BulkPausing, dlq.BulkPaused)
}

const closedTargetSQL = `SELECT EXISTS (SELECT FROM dlq.dlq_bulk_retry_queues WHERE bulk_id = @bulk AND closed)`

// HasClosedTarget tells whether a target refused messages of the bulk retry, and has not been found open since.
func (s *Store) HasClosedTarget(ctx context.Context, id dlq.ID) (bool, error) {
	has, _, err := queryOne(ctx, s, "find closed target", pgx.RowTo[bool], closedTargetSQL, pgx.NamedArgs{"bulk": uuid(id)})
	return has, err
}

// resumeBulkSQL also makes the queues of closed targets due at once, because the operator
// may have repaired the targets.
const resumeBulkSQL = `
WITH changed AS (
	UPDATE dlq.dlq_bulk_retries
	SET state = 'RUNNING', reason = '', updated_at = now(), next_at = clock_timestamp()
	WHERE id = @id AND state IN ('PAUSING', 'PAUSED')
	RETURNING id, topic
), due AS (
	UPDATE dlq.dlq_bulk_retry_queues q
	SET due_at = least(q.due_at, now())
	FROM changed
	WHERE q.bulk_id = changed.id AND q.lane = -1
) /* audit */
SELECT id, topic FROM changed`

// ResumeBulk continues a bulk retry that is paused or pausing. A job in another state does
// not change. The result is the bulk retry, or dlq.ErrNotFound.
func (s *Store) ResumeBulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error) {
	return s.changeBulk(ctx, "resume bulk retry", resumeBulkSQL, id, pgx.NamedArgs{})
}

const endBulkSQL = `
WITH ended AS (
	UPDATE dlq.dlq_bulk_retries b
	SET state = @state, reason = @reason, ended_at = now(), updated_at = now(), counted = true,
		matched = greatest(b.matched, l.done), skipped = greatest(b.matched - l.done, 0)
	FROM (
		SELECT COALESCE(sum(retried), 0)::bigint AS retried, COALESCE(sum(failed), 0)::bigint AS failed,
			COALESCE(sum(dead), 0)::bigint AS dead, COALESCE(sum(skipped), 0)::bigint AS skipped,
			COALESCE(sum(retried + failed + dead + skipped), 0)::bigint AS done
		FROM dlq.dlq_bulk_retry_lanes_now
		WHERE bulk_id = @id
	) AS l
	WHERE b.id = @id AND b.ended_at IS NULL
	RETURNING b.id, b.topic, b.workflow_id, jsonb_build_object('state', b.state, 'reason', b.reason, 'matched', b.matched,
		'retried', l.retried, 'failed', l.failed, 'dead', l.dead, 'skipped', b.skipped + l.skipped) AS counts
)` + recordEnd

// EndBulk ends a bulk retry. Nothing can be claimed for the job any more, the pages that the job
// still owns are requeued, and messages that were matched but not sent are counted as
// skipped. A job that ends before the count has matched the messages that are finished.
// A second call changes nothing. The result is the bulk retry, or dlq.ErrNotFound.
func (s *Store) EndBulk(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkRetry, error) {
	if !state.IsFinal() {
		return dlq.BulkRetry{}, fmt.Errorf("store: end bulk retry %s: %s is not an end", id, state)
	}
	// A completed job has nothing left to claim, so its claims need not be stopped.
	if state != dlq.BulkCompleted {
		if _, err := s.StopBulk(dlq.WithoutOperation(ctx), id, dlq.BulkCancelling, reason); err != nil {
			return dlq.BulkRetry{}, err
		}
	}
	if err := s.releasePages(ctx, id); err != nil {
		return dlq.BulkRetry{}, err
	}
	err := s.endJob(ctx, dlq.TargetBulkRetry, endBulkSQL, id, state, reason, lockBulkSQL, claimedLanesSQL)
	if err == nil {
		err = s.deleteQueues(ctx, id)
	}
	if err != nil {
		return dlq.BulkRetry{}, err
	}
	return s.Bulk(ctx, id)
}

// The queues and blocked keys of a job that has ended are deleted in bounded steps,
// because there may be many.
const (
	deleteWaitingSQL = `
DELETE FROM dlq.dlq_bulk_retry_waiting
WHERE ctid = ANY (ARRAY(SELECT ctid FROM dlq.dlq_bulk_retry_waiting WHERE bulk_id = @id LIMIT 10000))`

	deleteBlockedSQL = `
DELETE FROM dlq.dlq_bulk_retry_blocked_keys
WHERE ctid = ANY (ARRAY(SELECT ctid FROM dlq.dlq_bulk_retry_blocked_keys WHERE bulk_id = @id LIMIT 10000))`

	deleteQueuesSQL = `
DELETE FROM dlq.dlq_bulk_retry_queues
WHERE id = ANY (ARRAY(SELECT id FROM dlq.dlq_bulk_retry_queues WHERE bulk_id = @id LIMIT 10000))`
)

func (s *Store) deleteQueues(ctx context.Context, id dlq.ID) error {
	for _, sql := range []string{deleteWaitingSQL, deleteBlockedSQL, deleteQueuesSQL} {
		for deleted := int64(1); deleted > 0; {
			err := s.batch(ctx, "delete queues of bulk retry", func(batch *pgx.Batch) {
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
