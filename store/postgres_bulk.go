package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// bulkColumns are what scanBulk reads. The rate is that of each lane's current
// window and of the part of the one before that is not older than rateWindow.
const bulkColumns = `b.id, b.workflow_id, b.spec, b.rate_limit, b.state, b.reason, b.lanes, b.bound, b.matched, NOT b.counted, b.mixed,
	b.came_back, l.retried, l.failed, l.dead, b.skipped + l.skipped,
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
		&b.Counting, &b.Mixed, &b.CameBack, &b.Counts.Retried, &b.Counts.Failed, &b.Counts.Dead, &b.Counts.Skipped, &b.RecentPerSecond,
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
