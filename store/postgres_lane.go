package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// ClaimedPage returns what the lane's owner has claimed and not finalized, in
// the order of arrival: what a crash left between the two.
func (p *Postgres) ClaimedPage(ctx context.Context, lane dlq.Lane) ([]dlq.Envelope, error) {
	rows, err := p.pool.Query(ctx, `
		SELECT `+envelopeColumns+`
		FROM dlq.dlq_messages m
		LEFT JOIN dlq.dlq_message_bodies b ON b.message_id = m.id
		WHERE m.status = 'RETRYING' AND m.run_id = @run AND m.workflow_id = @workflow `+inLane+`
		ORDER BY m.seq`, p.laneScope(lane).args)
	if err != nil {
		return nil, failed("read claimed page", err)
	}
	page, err := pgx.CollectRows(rows, scanEnvelope)
	if err != nil {
		return nil, failed("read claimed page", err)
	}
	return page, nil
}

// OpenLane makes the caller the lane's newest attempt and returns the lane to use
// from now on. It waits for a claim or a finalize that is under way; an older
// attempt can do neither afterwards. It returns dlq.ErrNotFound for an unknown
// lane.
func (p *Postgres) OpenLane(ctx context.Context, lane dlq.Lane) (dlq.Lane, error) {
	err := again(func() error {
		return p.pool.QueryRow(ctx, `UPDATE dlq.dlq_bulk_retry_lanes SET epoch = epoch + 1
			WHERE bulk_id = $1 AND lane = $2 RETURNING epoch`, uuid(lane.Bulk), lane.Number).Scan(&lane.Epoch)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return dlq.Lane{}, laneNotFound(lane)
	}
	if err != nil {
		return dlq.Lane{}, failed("open lane", err)
	}
	return lane, nil
}

// heldKeysSQL looks the bodies up one by one, which the LIMIT makes sure of: how
// many there are is not known to the planner, and a join might read them all.
const heldKeysSQL = `
SELECT b.key
FROM (
	SELECT message_id FROM dlq.dlq_retry_attempts WHERE run_id = @run
	UNION
	SELECT id FROM dlq.dlq_messages WHERE run_id = @run AND run_id <> '' AND status = 'PENDING'
) AS held
CROSS JOIN LATERAL (SELECT key, key_hash FROM dlq.dlq_message_bodies WHERE message_id = held.message_id LIMIT 1) AS b
WHERE b.key IS NOT NULL AND b.key_hash % @of = @number
GROUP BY b.key`

// HeldKeys returns the keys of the lane's messages that the job has attempted
// and not delivered, or skipped, each once and in no order. Messages without a
// key are left out.
func (p *Postgres) HeldKeys(ctx context.Context, lane dlq.Lane) ([][]byte, error) {
	rows, err := p.pool.Query(ctx, heldKeysSQL, pgx.NamedArgs{"run": lane.Owner.RunID, "of": max(lane.Of, 1), "number": lane.Number})
	if err != nil {
		return nil, failed("read held keys", err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, failed("read held keys", err)
	}
	return keys, nil
}

// finalizePageSQL waits for the lane's row before it changes any message, since
// PauseBulk and EndBulk take them in that order too, and for the job's row
// before that when it has to give an allowance back. What is returned is dated
// back to where it was untouched. The CASE hides from the planner that the owner
// has an index too: in that one lies everything that the job has ever claimed,
// until the table is vacuumed.
var finalizePageSQL = `
WITH job AS MATERIALIZED (
	SELECT id, frozen_at FROM dlq.dlq_bulk_retries WHERE id = $1 AND $13::bool FOR UPDATE
), lane AS MATERIALIZED (
	SELECT bulk_id
	FROM dlq.dlq_bulk_retry_lanes
	WHERE bulk_id = $1 AND lane = $2 AND epoch = $14 AND (SELECT count(*) FROM job) >= 0
	FOR UPDATE
), outcome AS MATERIALIZED (
	SELECT o.*
	FROM unnest($5::uuid[], $6::text[], $7::text[], $8::int[], $9::text[], $10::text[], $11::text[], $12::bool[])
		AS o (id, with_left, with_none, delta, result, category, error, attempt), lane
), ended AS (
	UPDATE dlq.dlq_messages m
	SET status = CASE WHEN m.retry_count < m.max_retries THEN o.with_left ELSE o.with_none END,
		retry_count = greatest(m.retry_count + o.delta, 0), ` + undo("o.result") + `,
		updated_at = CASE WHEN o.result = 'returned' THEN COALESCE((SELECT frozen_at FROM job), now()) ELSE now() END
	FROM outcome o
	WHERE m.id = o.id AND CASE WHEN m.status = 'RETRYING' AND m.workflow_id = $3 AND m.run_id = $4 THEN true ELSE false END
	RETURNING m.id, m.seq, m.status, m.retry_count, m.last_retry_at, m.updated_at, o.result, o.category, o.error, o.attempt
), attempt AS (
	INSERT INTO dlq.dlq_retry_attempts (message_id, number, workflow_id, run_id, started_at, result, category, error)
	SELECT id, retry_count, $3, $4, COALESCE(last_retry_at, updated_at), result, category, error
	FROM ended
	WHERE attempt
), counted AS MATERIALIZED (
	SELECT count(*) AS ended,
		count(*) FILTER (WHERE result = 'delivered') AS retried,
		count(*) FILTER (WHERE attempt AND status = 'PENDING') AS failed,
		count(*) FILTER (WHERE attempt AND status = 'DEAD') AS dead,
		count(*) FILTER (WHERE result = 'skipped') AS skipped,
		count(*) FILTER (WHERE result = 'delivered' OR attempt) AS processed,
		count(*) FILTER (WHERE result = 'returned') AS returned,
		min(seq) FILTER (WHERE result = 'returned') AS lowest
	FROM ended
), refunded AS (
	UPDATE dlq.dlq_bulk_retries b
	SET allowance = b.allowance + c.returned
	FROM counted c, job
	WHERE b.id = job.id AND b.allowance IS NOT NULL AND c.returned > 0
)
UPDATE dlq.dlq_bulk_retry_lanes l
SET retried = l.retried + c.retried, failed = l.failed + c.failed, dead = l.dead + c.dead, skipped = l.skipped + c.skipped,
	cursor = least(l.cursor, c.lowest - 1), rewinds = l.rewinds + CASE WHEN c.returned > 0 THEN 1 ELSE 0 END,
	window_started_at = CASE WHEN now() < l.window_started_at + interval '10 seconds' THEN l.window_started_at
		WHEN now() < l.window_started_at + interval '20 seconds' THEN l.window_started_at + interval '10 seconds'
		ELSE now() END,
	window_count = c.processed + CASE WHEN now() < l.window_started_at + interval '10 seconds' THEN l.window_count ELSE 0 END,
	previous_count = CASE WHEN now() < l.window_started_at + interval '10 seconds' THEN l.previous_count
		WHEN now() < l.window_started_at + interval '20 seconds' THEN l.window_count
		ELSE 0 END,
	updated_at = now()
FROM counted c
WHERE l.bulk_id = $1 AND l.lane = $2
RETURNING l.retried, l.failed, l.dead, l.skipped, c.ended`

// FinalizePage ends the retries of a page, writes the attempts and adds to the
// lane's counters, all in one transaction, and returns the lane's totals and how
// many messages it has ended.
// Returned messages are not counted, and are the next to be claimed again.
// Messages that are no longer the owner's, because they were finalized before or
// an operator marked them dead, are neither changed nor counted. It returns
// dlq.ErrNotFound when there is no such lane.
func (p *Postgres) FinalizePage(ctx context.Context, lane dlq.Lane, outcomes []dlq.Outcome) (dlq.PageResult, error) {
	var ids [][16]byte
	var left, none, results, categories, errs []string
	var deltas []int32
	var attempts []bool
	returned := false
	seen := make(map[dlq.ID]bool, len(outcomes))
	for _, o := range outcomes {
		if seen[o.ID] {
			continue // the first outcome of a message ends its retry
		}
		seen[o.ID] = true
		end := endingOf(o.Result)
		returned = returned || o.Result == dlq.ResultReturned
		ids = append(ids, o.ID)
		left, none, deltas = append(left, end.left), append(none, end.none), append(deltas, int32(end.delta))
		results, categories = append(results, string(o.Result)), append(categories, string(o.Category))
		errs, attempts = append(errs, text(o.Error)), append(attempts, isAttempt(o.Result))
	}
	var result dlq.PageResult
	err := again(func() error {
		batch := &pgx.Batch{} // which is one transaction
		batch.Queue(lanePlanSQL)
		batch.Queue(finalizePageSQL, uuid(lane.Bulk), lane.Number, lane.Owner.WorkflowID, lane.Owner.RunID,
			ids, left, none, deltas, results, categories, errs, attempts, returned, lane.Epoch).QueryRow(func(row pgx.Row) error {
			return row.Scan(&result.Counts.Retried, &result.Counts.Failed, &result.Counts.Dead, &result.Counts.Skipped, &result.Ended)
		})
		return p.pool.SendBatch(ctx, batch).Close()
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return dlq.PageResult{}, laneNotFound(lane)
	}
	if err != nil {
		return dlq.PageResult{}, failed("finalize page", err)
	}
	return result, nil
}
