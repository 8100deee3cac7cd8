package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// NoteBulk records why a running bulk retry waits; an empty reason says that it
// no longer does. One that has ended keeps the reason of its end.
func (p *Postgres) NoteBulk(ctx context.Context, id dlq.ID, reason string) error {
	err := again(func() error {
		_, err := p.pool.Exec(ctx, `UPDATE dlq.dlq_bulk_retries SET reason = $2, updated_at = now()
			WHERE id = $1 AND state = 'RUNNING' AND reason <> $2`, uuid(id), text(reason))
		return err
	})
	if err != nil {
		return failed("note bulk retry", err)
	}
	return nil
}

// RunningBulks returns every bulk retry that has not ended, the oldest first.
func (p *Postgres) RunningBulks(ctx context.Context) ([]dlq.BulkRetry, error) {
	rows, err := p.pool.Query(ctx, `SELECT `+bulkColumns+bulkTables+` WHERE b.state = 'RUNNING' ORDER BY b.started_at, b.id`)
	if err != nil {
		return nil, failed("list running bulk retries", err)
	}
	bulks, err := pgx.CollectRows(rows, scanBulk)
	if err != nil {
		return nil, failed("list running bulk retries", err)
	}
	return bulks, nil
}
