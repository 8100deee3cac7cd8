package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// finalizePageSQL waits for the lane's row before it changes any message, since
// PauseBulk and EndBulk take them in that order too, and for the job's row before
// that when it has to give an allowance back. Messages that are returned are dated
// back to the job's snapshot, so that they are in its scope again, and the lane's
// cursor goes back to the first of them. The CASE hides from the planner that the
// owner has an index too: in that one lies everything that the job has ever claimed,
// until the table is vacuumed.
const finalizePageSQL = `
WITH job AS MATERIALIZED (
	SELECT id, frozen_at FROM dlq.dlq_bulk_retries WHERE id = @bulk AND @returned::bool FOR UPDATE
), lane AS MATERIALIZED (
	SELECT bulk_id
	FROM dlq.dlq_bulk_retry_lanes
	WHERE bulk_id = @bulk AND lane = @lane AND epoch = @epoch AND (SELECT count(*) FROM job) >= 0
	FOR UPDATE
), outcome AS MATERIALIZED (
	SELECT o.*
	FROM unnest(@ids::uuid[], @left_statuses::text[], @none_statuses::text[], @deltas::int[],
			@results::text[], @categories::text[], @errors::text[], @attempts::bool[])
		AS o (id, left_status, none_status, delta, result, category, error, attempt), lane
), ended AS (
	UPDATE dlq.dlq_messages m
	SET status = CASE WHEN m.retry_count < m.max_retries THEN o.left_status ELSE o.none_status END,
		retry_count = greatest(m.retry_count + o.delta, 0),
		workflow_id = CASE WHEN o.result = 'returned' THEN '' ELSE m.workflow_id END,
		owner_token = CASE WHEN o.result = 'returned' THEN '' ELSE m.owner_token END,
		last_retry_at = CASE WHEN o.result IN ('returned', 'skipped')
			THEN (SELECT max(a.started_at) FROM dlq.dlq_retry_attempts a WHERE a.message_id = m.id)
			ELSE m.last_retry_at END,
		updated_at = CASE WHEN o.result = 'returned' THEN (SELECT frozen_at FROM job) ELSE now() END
	FROM outcome o
	WHERE m.id = o.id
		AND CASE WHEN m.status = 'RETRYING' AND m.workflow_id = @workflow_id AND m.owner_token = @token THEN true ELSE false END
	RETURNING m.id, m.seq, m.status, m.retry_count, m.last_retry_at, m.updated_at, o.result, o.category, o.error, o.attempt
), attempt AS (
	INSERT INTO dlq.dlq_retry_attempts (message_id, number, workflow_id, owner_token, started_at, result, category, error)
	SELECT id, retry_count, @workflow_id, @token, COALESCE(last_retry_at, updated_at), result, category, error
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
WHERE l.bulk_id = @bulk AND l.lane = @lane
RETURNING l.retried, l.failed, l.dead, l.skipped, c.ended`

// FinalizePage ends the retries of a page, writes the attempts and adds to the
// lane's counters, all in one transaction, and returns the lane's totals and how
// many messages it has ended.
// Returned messages are not counted, and are the next to be claimed again.
// Messages that are no longer the owner's, because they were finalized before or
// an operator marked them dead, are neither changed nor counted. It returns
// dlq.ErrNotFound when there is no such lane.
func (s *Store) FinalizePage(ctx context.Context, lane dlq.Lane, outcomes []dlq.Outcome) (result dlq.PageResult, err error) {
	args := finalizeArgs(&lane, outcomes)
	err = s.batch(ctx, "finalize page", func(batch *pgx.Batch) {
		batch.Queue(lanePlanSQL)
		batch.Queue(finalizePageSQL, args).QueryRow(func(row pgx.Row) error {
			return row.Scan(&result.Counts.Retried, &result.Counts.Failed, &result.Counts.Dead, &result.Counts.Skipped, &result.Ended)
		})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return dlq.PageResult{}, laneNotFound(lane.Bulk, lane.Number)
	}
	return result, err
}

// finalizeArgs are the parameters of finalizePageSQL. The first outcome of a message
// ends its retry.
func finalizeArgs(lane *dlq.Lane, outcomes []dlq.Outcome) pgx.NamedArgs {
	var ids [][16]byte
	var left, none, results, categories, errs []string
	var deltas []int
	var attempts []bool
	returned := false
	seen := make(map[dlq.ID]bool, len(outcomes))
	for _, o := range outcomes {
		if seen[o.ID] {
			continue
		}
		seen[o.ID] = true
		end := endingOf(o.Result)
		returned = returned || o.Result == dlq.ResultReturned
		ids = append(ids, o.ID)
		left, none, deltas = append(left, end.left), append(none, end.none), append(deltas, end.delta)
		results, categories = append(results, string(o.Result)), append(categories, string(o.Category))
		errs, attempts = append(errs, dlq.Text(o.Error)), append(attempts, o.Result.IsAttempt())
	}
	args := laneArgs(lane)
	args["ids"], args["left_statuses"], args["none_statuses"], args["deltas"] = ids, left, none, deltas
	args["results"], args["categories"], args["errors"], args["attempts"] = results, categories, errs, attempts
	args["returned"] = returned
	return args
}
