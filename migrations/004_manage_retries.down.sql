DROP TABLE IF EXISTS dlq.dlq_bulk_retry_lanes;
DROP TABLE IF EXISTS dlq.dlq_bulk_retries;
DROP TABLE IF EXISTS dlq.dlq_retry_attempts;
DROP TABLE IF EXISTS dlq.dlq_message_bodies;

DROP INDEX IF EXISTS dlq.idx_dlq_messages_archive_updated_at;
ALTER TABLE dlq.dlq_messages_archive
    DROP COLUMN IF EXISTS seq,
    DROP COLUMN IF EXISTS dlq_topic,
    DROP COLUMN IF EXISTS error_class,
    DROP COLUMN IF EXISTS key_hash,
    DROP COLUMN IF EXISTS workflow_id,
    DROP COLUMN IF EXISTS owner_token,
    DROP COLUMN IF EXISTS previous_id,
    DROP COLUMN IF EXISTS ballast;

-- The indexes on these columns go with them.
ALTER TABLE dlq.dlq_messages
    DROP COLUMN IF EXISTS seq,
    DROP COLUMN IF EXISTS dlq_topic,
    DROP COLUMN IF EXISTS error_class,
    DROP COLUMN IF EXISTS key_hash,
    DROP COLUMN IF EXISTS workflow_id,
    DROP COLUMN IF EXISTS owner_token,
    DROP COLUMN IF EXISTS previous_id,
    DROP COLUMN IF EXISTS ballast;
ALTER TABLE dlq.dlq_messages RESET (toast_tuple_target, fillfactor, autovacuum_analyze_scale_factor);

-- The indexes and the trigger as they are documented.
DROP INDEX IF EXISTS dlq.idx_dlq_messages_original_topic;
CREATE INDEX idx_dlq_messages_original_topic ON dlq.dlq_messages (original_topic);
DROP INDEX IF EXISTS dlq.idx_dlq_messages_status;
CREATE INDEX idx_dlq_messages_status ON dlq.dlq_messages (status);
CREATE OR REPLACE TRIGGER trg_dlq_messages_updated_at
    BEFORE UPDATE ON dlq.dlq_messages
    FOR EACH ROW
    EXECUTE FUNCTION dlq.update_updated_at();
