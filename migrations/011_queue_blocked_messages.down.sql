UPDATE dlq.dlq_messages m
SET status = 'PENDING', retry_count = greatest(m.retry_count - 1, 0), workflow_id = '', owner_token = '', updated_at = now()
FROM dlq.dlq_bulk_retries b
WHERE b.ended_at IS NULL AND m.status = 'RETRYING' AND m.owner_token = b.id::text;
UPDATE dlq.dlq_bulk_retries
SET state = 'FAILED', reason = 'ended by a downgrade; start it again', ended_at = now(), updated_at = now(), counted = true
WHERE ended_at IS NULL;

DROP TABLE IF EXISTS dlq.dlq_bulk_retry_blocked_keys;
DROP TABLE IF EXISTS dlq.dlq_bulk_retry_waiting;
DROP TABLE IF EXISTS dlq.dlq_bulk_retry_queues;

ALTER TABLE dlq.dlq_bulk_retry_lanes
    DROP COLUMN IF EXISTS page,
    DROP COLUMN IF EXISTS scheduled_at,
    DROP COLUMN IF EXISTS attempt,
    DROP COLUMN IF EXISTS waiting,
    ADD COLUMN IF NOT EXISTS reached BIGINT  NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS rewinds BIGINT  NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS closed  BOOLEAN NOT NULL DEFAULT false;

DROP INDEX IF EXISTS dlq.idx_dlq_bulk_retries_live;
CREATE INDEX idx_dlq_bulk_retries_live ON dlq.dlq_bulk_retries (started_at, id) WHERE state IN ('RUNNING', 'PAUSED');
ALTER TABLE dlq.dlq_bulk_retries
    DROP CONSTRAINT IF EXISTS chk_dlq_bulk_retries_state,
    ADD CONSTRAINT chk_dlq_bulk_retries_state CHECK (state IN ('RUNNING', 'PAUSED', 'COMPLETED', 'CANCELLED', 'FAILED'));

DROP INDEX IF EXISTS dlq.idx_dlq_messages_retrying_alone;
DROP INDEX IF EXISTS dlq.idx_dlq_messages_retrying;
CREATE INDEX IF NOT EXISTS idx_dlq_messages_owner ON dlq.dlq_messages (owner_token, seq) WHERE status = 'RETRYING';
CREATE INDEX IF NOT EXISTS idx_dlq_messages_tried ON dlq.dlq_messages (owner_token) WHERE status = 'PENDING' AND owner_token <> '';
CREATE INDEX IF NOT EXISTS idx_dlq_retry_attempts_owner ON dlq.dlq_retry_attempts (owner_token);
