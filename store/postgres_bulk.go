package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// startBulkSQL fixes the scope and writes the job with its lanes. The bound looks
// at the end of each status on each side: eight short index probes, however
// large the table.
func startBulkSQL(s *scope) string {
	return `
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
	FROM ` + s.sendable("1", " AND m.seq <= (SELECT seq FROM bound)", "", "") + ` AS sides
), started AS (
	INSERT INTO dlq.dlq_bulk_retries (id, workflow_id, topic, spec, rate_limit, lanes, bound, matched)
	SELECT @id, @workflow, @topic, @spec::jsonb, @rate, @lanes, bound.seq, matched.n FROM bound, matched
	ON CONFLICT (id) DO NOTHING
	RETURNING id, lanes
)
INSERT INTO dlq.dlq_bulk_retry_lanes (bulk_id, lane)
SELECT started.id, n FROM started, generate_series(0, started.lanes - 1) AS n`
}

// StartBulk fixes the scope of a bulk retry and writes its lanes. Of b it takes
// ID, WorkflowID, Spec and Lanes (at least one). Starting one that was started
// before returns it as it stands.
func (p *Postgres) StartBulk(ctx context.Context, b dlq.BulkRetry) (dlq.BulkRetry, error) {
	known, err := p.Bulk(ctx, b.ID)
	if !errors.Is(err, dlq.ErrNotFound) {
		return known, err
	}
	spec := normalizedSpec(b.Spec)
	encoded, err := encodeSpec(spec)
	if err != nil {
		return dlq.BulkRetry{}, failed("start bulk retry", err)
	}
	s := p.scope(spec)
	s.args["id"], s.args["workflow"], s.args["spec"] = uuid(b.ID), b.WorkflowID, encoded
	s.args["rate"], s.args["lanes"] = spec.RateLimit, max(b.Lanes, 1)
	err = again(func() error {
		_, err := p.pool.Exec(ctx, startBulkSQL(s), s.args)
		return err
	})
	if err != nil {
		return dlq.BulkRetry{}, failed("start bulk retry", err)
	}
	return p.Bulk(ctx, b.ID)
}

// bulkColumns are what scanBulk reads. The rate is that of each lane's current
// window and of the part of the one before that is not older than rateWindow.
const bulkColumns = `b.id, b.workflow_id, b.spec, b.rate_limit, b.state, b.reason, b.lanes, b.bound, b.matched, b.came_back,
	l.retried, l.failed, l.dead, b.skipped + l.skipped,
	l.recent / least(10, greatest(1, extract(epoch FROM clock_timestamp() - b.started_at)::float8)),
	b.started_at, greatest(b.updated_at, l.updated_at), b.ended_at`

const bulkTables = `
FROM dlq.dlq_bulk_retries b
CROSS JOIN LATERAL (
	SELECT COALESCE(sum(retried), 0)::bigint AS retried, COALESCE(sum(failed), 0)::bigint AS failed,
		COALESCE(sum(dead), 0)::bigint AS dead, COALESCE(sum(skipped), 0)::bigint AS skipped, max(updated_at) AS updated_at,
		COALESCE(sum(CASE
			WHEN age < 10 THEN window_count + previous_count * (1 - age / 10)
			WHEN age < 20 THEN window_count * (2 - age / 10)
			ELSE 0 END), 0) AS recent
	FROM dlq.dlq_bulk_retry_lanes,
	LATERAL (SELECT greatest(0, extract(epoch FROM clock_timestamp() - window_started_at)::float8) AS age) AS w
	WHERE bulk_id = b.id
) AS l`

func scanBulk(row pgx.CollectableRow) (dlq.BulkRetry, error) {
	var b dlq.BulkRetry
	var spec []byte
	var rate int
	err := row.Scan((*[16]byte)(&b.ID), &b.WorkflowID, &spec, &rate, (*string)(&b.State), &b.Reason, &b.Lanes, &b.Bound, &b.Matched,
		&b.CameBack, &b.Counts.Retried, &b.Counts.Failed, &b.Counts.Dead, &b.Counts.Skipped, &b.RecentPerSecond,
		&b.StartedAt, &b.UpdatedAt, &b.EndedAt)
	if err != nil {
		return dlq.BulkRetry{}, err
	}
	b.StartedAt, b.UpdatedAt, b.EndedAt = b.StartedAt.UTC(), b.UpdatedAt.UTC(), utc(b.EndedAt)
	b.Spec, err = decodeSpec(spec)
	b.Spec.RateLimit = rate
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

func bulkNotFound(id dlq.ID) error { return fmt.Errorf("bulk retry %s: %w", id, dlq.ErrNotFound) }

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

// RunningBulks returns every bulk retry that has not ended, the oldest first.
func (p *Postgres) RunningBulks(ctx context.Context) ([]dlq.BulkRetry, error) {
	rows, err := p.pool.Query(ctx, `SELECT `+bulkColumns+bulkTables+` WHERE b.state IN ('RUNNING', 'PAUSED') ORDER BY b.started_at, b.id`)
	if err != nil {
		return nil, failed("list running bulk retries", err)
	}
	bulks, err := pgx.CollectRows(rows, scanBulk)
	if err != nil {
		return nil, failed("list running bulk retries", err)
	}
	return bulks, nil
}
