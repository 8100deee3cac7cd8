DROP INDEX IF EXISTS dlq.idx_dlq_messages_archive_updated_at;
DROP INDEX IF EXISTS dlq.idx_dlq_messages_owner;
DROP INDEX IF EXISTS dlq.idx_dlq_messages_dlq_topic;
DROP INDEX IF EXISTS dlq.idx_dlq_messages_status;
CREATE INDEX idx_dlq_messages_status ON dlq.dlq_messages (status);
DROP INDEX IF EXISTS dlq.idx_dlq_messages_original_topic;
CREATE INDEX idx_dlq_messages_original_topic ON dlq.dlq_messages (original_topic);

ALTER TABLE dlq.dlq_messages_archive
    DROP COLUMN IF EXISTS seq,
    DROP COLUMN IF EXISTS dlq_topic,
    DROP COLUMN IF EXISTS error_class,
    DROP COLUMN IF EXISTS key_hash,
    DROP COLUMN IF EXISTS workflow_id,
    DROP COLUMN IF EXISTS run_id,
    DROP COLUMN IF EXISTS previous_id;

ALTER TABLE dlq.dlq_messages
    DROP COLUMN IF EXISTS seq,
    DROP COLUMN IF EXISTS dlq_topic,
    DROP COLUMN IF EXISTS error_class,
    DROP COLUMN IF EXISTS key_hash,
    DROP COLUMN IF EXISTS workflow_id,
    DROP COLUMN IF EXISTS run_id,
    DROP COLUMN IF EXISTS previous_id;
