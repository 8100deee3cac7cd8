ALTER TABLE dlq.dlq_messages ALTER COLUMN key_hash SET DEFAULT 0;
ALTER TABLE dlq.dlq_messages_archive ALTER COLUMN key_hash SET DEFAULT 0;
DROP INDEX IF EXISTS dlq.idx_dlq_messages_retrying_alone;
CREATE INDEX idx_dlq_messages_retrying_alone ON dlq.dlq_messages (key_hash)
    WHERE status = 'RETRYING' AND workflow_id NOT LIKE 'retry-all-%';
CREATE INDEX IF NOT EXISTS idx_dlq_messages_retrying ON dlq.dlq_messages (key_hash, owner_token) WHERE status = 'RETRYING';
ALTER TABLE dlq.dlq_bulk_retries DROP COLUMN IF EXISTS target;
