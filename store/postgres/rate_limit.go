package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// The limits of a job are columns of its row, so they hold over all its lanes and workers. rate_limit is in messages per
// second, and next_at is when the next claim may be. step_limit is how many more messages may be claimed in the present
// step of a ramp. Every claim updates next_at and step_limit (dlq.JobLimits, chargeJobSQL). The claims of a job without
// limits do not write the row.

const setRateSQL = `
WITH changed AS (
	UPDATE dlq.dlq_jobs SET rate_limit = @rate_limit, updated_at = now()
	WHERE id = @id AND ended_at IS NULL
	RETURNING id, topic
) /* audit */
SELECT id, topic FROM changed`

// SetJobRate sets how many messages per second all lanes together may claim; 0 removes the limit. A job that has
// ended does not change. The error is dlq.ErrNotFound when there is no such bulk retry.
func (s *Store) SetJobRate(ctx context.Context, asked *dlq.Operation, id dlq.ID, rate int) error {
	_, err := s.change(ctx, asked, "set rate of bulk retry", setRateSQL, id, pgx.NamedArgs{"rate_limit": dlq.StorableCount(rate)})
	return err
}

const setStepLimitSQL = `
UPDATE dlq.dlq_jobs SET step_limit = @step_limit, updated_at = now()
WHERE id = @id AND ended_at IS NULL
RETURNING id, topic`

// SetStepLimit sets how many more messages all lanes together may claim; nil removes the limit. A job that has ended
// does not change. The error is dlq.ErrNotFound when there is no such bulk retry.
func (s *Store) SetStepLimit(ctx context.Context, id dlq.ID, messages *int64) error {
	if messages != nil {
		messages = nilIf(max(*messages, 0), false)
	}
	_, err := s.change(ctx, nil, "set step limit of bulk retry", setStepLimitSQL, id, pgx.NamedArgs{"step_limit": messages})
	return err
}
