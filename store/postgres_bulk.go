package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// The bound looks at the end of each status on each side: eight short index
// probes, however large the table.
const startBulkSQL = `
WITH bound AS MATERIALIZED (
	SELECT COALESCE(max(newest.seq), 0) AS seq
	FROM unnest(ARRAY['PENDING', 'RETRYING', 'RESOLVED', 'DEAD']) AS s (status),
	LATERAL (
		(SELECT m.seq FROM dlq.dlq_messages m WHERE m.dlq_topic = @topic AND m.status = s.status ORDER BY m.seq DESC LIMIT 1)
		UNION ALL
		(SELECT m.seq FROM dlq.dlq_messages m WHERE m.original_topic = @topic AND m.status = s.status ORDER BY m.seq DESC LIMIT 1)
	) AS newest
), matched AS MATERIALIZED (
	SELECT count(*) AS n
	FROM (
		SELECT FROM dlq.dlq_messages m
		WHERE m.dlq_topic = @topic AND m.status = 'PENDING' AND m.retry_count < m.max_retries AND ` + hasOrigin + `
			AND m.seq <= (SELECT seq FROM bound)
		UNION ALL
		SELECT FROM dlq.dlq_messages m
		WHERE m.original_topic = @topic AND m.status = 'PENDING' AND m.retry_count < m.max_retries AND ` + hasOrigin + `
			AND m.seq <= (SELECT seq FROM bound)
	) AS sides
), started AS (
	INSERT INTO dlq.dlq_bulk_retries (id, workflow_id, topic, lanes, bound, matched)
	SELECT @id, @workflow, @topic, @lanes, bound.seq, matched.n FROM bound, matched
	ON CONFLICT (id) DO NOTHING
	RETURNING id, lanes
)
INSERT INTO dlq.dlq_bulk_retry_lanes (bulk_id, lane)
SELECT started.id, n FROM started, generate_series(0, started.lanes - 1) AS n`

// StartBulk fixes the scope of a bulk retry and writes its lanes. Of b it takes
// ID, WorkflowID, Topic and Lanes (at least one). Starting one that was started
// before returns it as it stands.
func (p *Postgres) StartBulk(ctx context.Context, b dlq.BulkRetry) (dlq.BulkRetry, error) {
	known, err := p.Bulk(ctx, b.ID)
	if !errors.Is(err, dlq.ErrNotFound) {
		return known, err
	}
	err = again(func() error {
		_, err := p.pool.Exec(ctx, startBulkSQL, pgx.NamedArgs{"id": uuid(b.ID), "workflow": b.WorkflowID, "topic": topicText(b.Topic),
			"lanes": max(b.Lanes, 1), "expression": p.topics.Expression()})
		return err
	})
	if err != nil {
		return dlq.BulkRetry{}, failed("start bulk retry", err)
	}
	return p.Bulk(ctx, b.ID)
}

const bulkColumns = `b.id, b.workflow_id, b.topic, b.state, b.reason, b.lanes, b.bound, b.matched,
	l.retried, l.failed, l.dead, b.skipped, b.started_at, greatest(b.updated_at, l.updated_at), b.ended_at`

const bulkTables = `
FROM dlq.dlq_bulk_retries b
CROSS JOIN LATERAL (
	SELECT COALESCE(sum(retried), 0)::bigint AS retried, COALESCE(sum(failed), 0)::bigint AS failed,
		COALESCE(sum(dead), 0)::bigint AS dead, max(updated_at) AS updated_at
	FROM dlq.dlq_bulk_retry_lanes
	WHERE bulk_id = b.id
) AS l`

func scanBulk(row pgx.CollectableRow) (b dlq.BulkRetry, err error) {
	err = row.Scan((*[16]byte)(&b.ID), &b.WorkflowID, &b.Topic, (*string)(&b.State), &b.Reason, &b.Lanes, &b.Bound, &b.Matched,
		&b.Counts.Retried, &b.Counts.Failed, &b.Counts.Dead, &b.Counts.Skipped, &b.StartedAt, &b.UpdatedAt, &b.EndedAt)
	b.StartedAt, b.UpdatedAt, b.EndedAt = b.StartedAt.UTC(), b.UpdatedAt.UTC(), utc(b.EndedAt)
	return b, err
}

// Bulk returns a bulk retry with the sum of its lanes, or dlq.ErrNotFound.
func (p *Postgres) Bulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error) {
	rows, err := p.pool.Query(ctx, `SELECT `+bulkColumns+bulkTables+` WHERE b.id = $1`, uuid(id))
	if err != nil {
		return dlq.BulkRetry{}, failed("read bulk retry", err)
	}
	b, err := pgx.CollectExactlyOneRow(rows, scanBulk)
	if errors.Is(err, pgx.ErrNoRows) {
		return dlq.BulkRetry{}, bulkNotFound(id)
	}
	if err != nil {
		return dlq.BulkRetry{}, failed("read bulk retry", err)
	}
	return b, nil
}

// Bulks returns the newest bulk retries, the newest first.
func (p *Postgres) Bulks(ctx context.Context, limit int) ([]dlq.BulkRetry, error) {
	rows, err := p.pool.Query(ctx, `SELECT `+bulkColumns+bulkTables+` ORDER BY b.started_at DESC, b.id DESC LIMIT $1`, max(limit, 0))
	if err != nil {
		return nil, failed("list bulk retries", err)
	}
	bulks, err := pgx.CollectRows(rows, scanBulk)
	if err != nil {
		return nil, failed("list bulk retries", err)
	}
	return bulks, nil
}

const endBulkSQL = `
UPDATE dlq.dlq_bulk_retries b
SET state = $2, reason = $3, ended_at = now(), updated_at = now(),
	matched = greatest(b.matched, l.done), skipped = greatest(b.matched - l.done, 0)
FROM (SELECT COALESCE(sum(retried + failed + dead), 0)::bigint AS done FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = $1) AS l
WHERE b.id = $1`

// EndBulk ends a bulk retry: nothing can be claimed for it any more, what it
// still owns goes back as it was, and what was matched but not sent is counted
// as skipped. Ending it again changes nothing; the first end counts. It returns
// the bulk retry, or dlq.ErrNotFound.
func (p *Postgres) EndBulk(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkRetry, error) {
	if state == dlq.BulkRunning {
		return dlq.BulkRetry{}, fmt.Errorf("store: end bulk retry %s: %s is not an end", id, state)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // it holds locks that the lanes wait for
	defer cancel()
	err := again(func() error {
		return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
			var owner dlq.Owner
			var running bool
			err := tx.QueryRow(ctx, `SELECT workflow_id, state = 'RUNNING' FROM dlq.dlq_bulk_retries WHERE id = $1 FOR UPDATE`, uuid(id)).
				Scan(&owner.WorkflowID, &running)
			if err != nil || !running {
				return err
			}
			owner.RunID = id.String()
			// Waits for the pages that lanes are claiming or finalizing right now.
			_, err = tx.Exec(ctx, `UPDATE dlq.dlq_bulk_retry_lanes SET ended = true WHERE bulk_id = $1`, uuid(id))
			if err != nil {
				return err
			}
			if _, err := release(ctx, tx, owner, dlq.ResultReturned, ""); err != nil {
				return err
			}
			_, err = tx.Exec(ctx, endBulkSQL, uuid(id), string(state), text(reason))
			return err
		})
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return dlq.BulkRetry{}, failed("end bulk retry", err)
	}
	return p.Bulk(ctx, id)
}
