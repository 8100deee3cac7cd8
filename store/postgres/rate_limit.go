package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// Two limits of a job hold over all its lanes and workers, because they are columns
// of its row, which every claim moves (claimPageSQL in claim_page.go):
//
//   - rate_limit is in messages per second. next_at is when it allows the next
//     message; a claim of n messages moves that by n / rate_limit.
//   - allowance is how many more messages the step of a ramp may send.
//
// A job without limits does not touch its row.

const setRateSQL = `
WITH changed AS (
	UPDATE dlq.dlq_bulk_retries SET rate_limit = @rate_limit, updated_at = now()
	WHERE id = @id AND ended_at IS NULL
)
SELECT id FROM dlq.dlq_bulk_retries WHERE id = @id`

// SetBulkRate sets how many messages per second all lanes together may claim; 0
// lifts the limit. One that has ended keeps its limit. It returns
// dlq.ErrNotFound when there is no such bulk retry.
func (s *Store) SetBulkRate(ctx context.Context, id dlq.ID, rate int) error {
	return s.setLimit(ctx, "set rate of bulk retry", setRateSQL, id, pgx.NamedArgs{"rate_limit": dlq.StorableCount(rate)})
}

const setAllowanceSQL = `
WITH changed AS (
	UPDATE dlq.dlq_bulk_retries SET step_limit = @step_limit, updated_at = now()
	WHERE id = @id AND ended_at IS NULL
)
SELECT id FROM dlq.dlq_bulk_retries WHERE id = @id`

// SetStepLimit sets how many more messages all lanes together may claim; nil
// lifts the limit. One that has ended keeps what it had. It returns
// dlq.ErrNotFound when there is no such bulk retry.
func (s *Store) SetStepLimit(ctx context.Context, id dlq.ID, messages *int64) error {
	if messages != nil {
		messages = optional(max(*messages, 0), false)
	}
	return s.setLimit(ctx, "set allowance of bulk retry", setAllowanceSQL, id, pgx.NamedArgs{"step_limit": messages})
}

func (s *Store) setLimit(ctx context.Context, what, sql string, id dlq.ID, args pgx.NamedArgs) error {
	args["id"] = uuid(id)
	_, found, err := one(ctx, s, what, pgx.RowTo[[16]byte], sql, args)
	if err == nil && !found {
		err = dlq.BulkNotFound(id)
	}
	return err
}
