ALTER TABLE dlq.dlq_bulk_retries
    DROP COLUMN IF EXISTS frozen_at,
    DROP COLUMN IF EXISTS counted;
