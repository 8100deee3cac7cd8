package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// inLane is the condition that a message is in a lane. As a CASE it is opaque to
// the planner, which would otherwise take an equality for one row in 200, fear
// to read the whole topic for a page, and sort it instead of walking the index.
const inLane = `CASE WHEN m.key_hash % @of = @number THEN true ELSE false END`

var pageSize = strconv.Itoa(dlq.PageSize)

// candidates are the next page on one side of a topic, read in the index's
// order. That the cursor comes from the lane's row, which is locked by then,
// makes the page right also when the lane had to be waited for.
func candidates(side string) string {
	return `(SELECT m.id, m.seq
	FROM dlq.dlq_messages m
	WHERE ` + side + ` AND m.status = 'PENDING' AND m.seq > (SELECT cursor FROM lane) AND m.seq <= @bound
		AND m.retry_count < m.max_retries AND ` + hasOrigin + ` AND ` + inLane + `
	ORDER BY m.seq
	LIMIT ` + pageSize + `)`
}

// A message cannot be on both sides: then its origin would be its dead-letter
// topic, which hasOrigin refuses.
var claimPageSQL = `
WITH lane AS MATERIALIZED (
	SELECT cursor FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = @bulk AND lane = @number AND NOT ended FOR UPDATE
), candidate AS MATERIALIZED (
	SELECT id, seq
	FROM (` + candidates("m.dlq_topic = @topic") + ` UNION ALL ` + candidates("m.original_topic = @topic") + `) AS sides
	ORDER BY seq
	LIMIT ` + pageSize + `
), free AS MATERIALIZED (
	SELECT m.id
	FROM candidate c
	JOIN dlq.dlq_messages m ON m.id = c.id
	WHERE m.status = 'PENDING' AND m.retry_count < m.max_retries
	FOR UPDATE OF m SKIP LOCKED
), claimed AS (
	UPDATE dlq.dlq_messages m
	SET status = 'RETRYING', retry_count = m.retry_count + 1, last_retry_at = now(), workflow_id = @workflow, run_id = @run
	FROM free
	WHERE m.id = free.id
	RETURNING m.id, m.seq, m.original_topic, m.retry_count, m.last_retry_at, m.payload
), moved AS (
	UPDATE dlq.dlq_bulk_retry_lanes
	SET cursor = (SELECT max(seq) FROM candidate), updated_at = now()
	WHERE bulk_id = @bulk AND lane = @number AND EXISTS (SELECT FROM candidate)
)
SELECT seen.some, m.id IS NOT NULL, ` + envelopeColumns + `
FROM (SELECT EXISTS (SELECT FROM candidate) AS some) AS seen
LEFT JOIN claimed m ON true
LEFT JOIN dlq.dlq_message_bodies b ON b.message_id = m.id
ORDER BY m.seq`

// ClaimPage claims the lane's next messages for its owner, at most dlq.PageSize
// in the order of arrival, and moves the lane's cursor past them in the same
// transaction. Messages that someone else is changing right now are passed over.
// An empty page means that the lane is done, or that its bulk retry has ended.
func (p *Postgres) ClaimPage(ctx context.Context, lane dlq.Lane) ([]dlq.Envelope, error) {
	for {
		var page []dlq.Envelope
		var more bool
		err := again(func() error {
			rows, err := p.pool.Query(ctx, claimPageSQL, p.laneArgs(lane))
			if err != nil {
				return err
			}
			page, more, err = collectPage(rows)
			return err
		})
		if err != nil {
			return nil, failed("claim page", err)
		}
		// Only when every candidate was taken by others is there a reason to go on.
		if len(page) > 0 || !more {
			return page, nil
		}
	}
}

func (p *Postgres) laneArgs(lane dlq.Lane) pgx.NamedArgs {
	return pgx.NamedArgs{"bulk": uuid(lane.Bulk), "number": lane.Number, "of": max(lane.Of, 1), "topic": lane.Topic, "bound": lane.Bound,
		"workflow": lane.Owner.WorkflowID, "run": lane.Owner.RunID, "expression": p.topics.Expression()}
}

// collectPage reads rows of claimPageSQL: each says whether there were
// candidates, and the first may carry no message.
func collectPage(rows pgx.Rows) (page []dlq.Envelope, more bool, err error) {
	defer rows.Close()
	for rows.Next() {
		var claimed bool
		skip := make([]any, len(rows.FieldDescriptions())-2) // nil targets are not read
		if err := rows.Scan(append([]any{&more, &claimed}, skip...)...); err != nil {
			return nil, false, err
		}
		if !claimed {
			continue
		}
		e, err := scanEnvelope(shifted{rows})
		if err != nil {
			return nil, false, err
		}
		page = append(page, e)
	}
	return page, more, rows.Err()
}

// shifted is a row without its first two columns.
type shifted struct{ pgx.Rows }

func (s shifted) Scan(targets ...any) error {
	return s.Rows.Scan(append([]any{nil, nil}, targets...)...)
}

// ClaimedPage returns what the lane's owner has claimed and not finalized, in
// the order of arrival: what a crash left between the two.
func (p *Postgres) ClaimedPage(ctx context.Context, lane dlq.Lane) ([]dlq.Envelope, error) {
	rows, err := p.pool.Query(ctx, `
		SELECT `+envelopeColumns+`
		FROM dlq.dlq_messages m
		LEFT JOIN dlq.dlq_message_bodies b ON b.message_id = m.id
		WHERE m.status = 'RETRYING' AND m.run_id = @run AND m.workflow_id = @workflow AND `+inLane+`
		ORDER BY m.seq`, p.laneArgs(lane))
	if err != nil {
		return nil, failed("read claimed page", err)
	}
	page, err := pgx.CollectRows(rows, scanEnvelope)
	if err != nil {
		return nil, failed("read claimed page", err)
	}
	return page, nil
}

// finalizePageSQL waits for the lane's row before it changes any message, since
// EndBulk takes them in that order too.
const finalizePageSQL = `
WITH lane AS MATERIALIZED (
	SELECT bulk_id FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = $1 AND lane = $2 FOR UPDATE
), outcome AS MATERIALIZED (
	SELECT o.*
	FROM unnest($5::uuid[], $6::text[], $7::text[], $8::int[], $9::text[], $10::text[], $11::text[], $12::bool[])
		AS o (id, with_left, with_none, delta, result, category, error, attempt), lane
), ended AS (
	UPDATE dlq.dlq_messages m
	SET status = CASE WHEN m.retry_count < m.max_retries THEN o.with_left ELSE o.with_none END,
		retry_count = greatest(m.retry_count + o.delta, 0)
	FROM outcome o
	WHERE m.id = o.id AND m.status = 'RETRYING' AND m.workflow_id = $3 AND m.run_id = $4
	RETURNING m.id, m.status, m.retry_count, m.last_retry_at, m.updated_at, o.result, o.category, o.error, o.attempt
), attempt AS (
	INSERT INTO dlq.dlq_retry_attempts (message_id, number, workflow_id, run_id, started_at, result, category, error)
	SELECT id, retry_count, $3, $4, COALESCE(last_retry_at, updated_at), result, category, error
	FROM ended
	WHERE attempt
), counted AS (
	SELECT count(*) FILTER (WHERE result = 'delivered') AS retried,
		count(*) FILTER (WHERE attempt AND status = 'PENDING') AS failed,
		count(*) FILTER (WHERE attempt AND status = 'DEAD') AS dead
	FROM ended
)
UPDATE dlq.dlq_bulk_retry_lanes l
SET retried = l.retried + c.retried, failed = l.failed + c.failed, dead = l.dead + c.dead, updated_at = now()
FROM counted c
WHERE l.bulk_id = $1 AND l.lane = $2
RETURNING l.retried, l.failed, l.dead`

// FinalizePage ends the retries of a page, writes the attempts and adds to the
// lane's counters, all in one transaction, and returns the lane's totals.
// Messages that are no longer the owner's, because they were finalized before or
// an operator marked them dead, are neither changed nor counted. It returns
// dlq.ErrNotFound when there is no such lane.
func (p *Postgres) FinalizePage(ctx context.Context, lane dlq.Lane, outcomes []dlq.Outcome) (dlq.BulkCounts, error) {
	var ids [][16]byte
	var left, none, results, categories, errs []string
	var deltas []int32
	var attempts []bool
	seen := make(map[dlq.ID]bool, len(outcomes))
	for _, o := range outcomes {
		if seen[o.ID] {
			continue // the first outcome of a message ends its retry
		}
		seen[o.ID] = true
		end := endingOf(o.Result)
		ids = append(ids, o.ID)
		left, none, deltas = append(left, end.left), append(none, end.none), append(deltas, int32(end.delta))
		results, categories = append(results, string(o.Result)), append(categories, string(o.Category))
		errs, attempts = append(errs, text(o.Error)), append(attempts, isAttempt(o.Result))
	}
	var counts dlq.BulkCounts
	err := again(func() error {
		return p.pool.QueryRow(ctx, finalizePageSQL, uuid(lane.Bulk), lane.Number, lane.Owner.WorkflowID, lane.Owner.RunID,
			ids, left, none, deltas, results, categories, errs, attempts).Scan(&counts.Retried, &counts.Failed, &counts.Dead)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return dlq.BulkCounts{}, fmt.Errorf("lane %d of bulk retry %s: %w", lane.Number, lane.Bulk, dlq.ErrNotFound)
	}
	if err != nil {
		return dlq.BulkCounts{}, failed("finalize page", err)
	}
	return counts, nil
}
