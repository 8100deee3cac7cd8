-- dlq-db: each lane of a bulk retry reads its own messages only

-- The words of the documentation.
DO $$
DECLARE
    renamed RECORD;
BEGIN
    FOR renamed IN
        SELECT * FROM (VALUES ('allowance', 'step_limit'), ('bound', 'upper_bound'),
                              ('frozen_at', 'snapshot_at'), ('mixed', 'multi_target')) AS names (before, after)
        JOIN information_schema.columns c
            ON c.table_schema = 'dlq' AND c.table_name = 'dlq_bulk_retries' AND c.column_name = names.before
    LOOP
        EXECUTE format('ALTER TABLE dlq.dlq_bulk_retries RENAME COLUMN %I TO %I', renamed.before, renamed.after);
    END LOOP;
END;
$$;

-- Each message is in one of 1,024 buckets, key_hash & 1023, and each lane has a range of
-- buckets. The bucket stands last in these indexes: a lane skips the entries of other
-- lanes without a look at their rows, and still reads its own in the order of arrival.
DROP INDEX IF EXISTS dlq.idx_dlq_messages_original_topic_pending;
CREATE INDEX idx_dlq_messages_original_topic_pending ON dlq.dlq_messages (original_topic, seq, (key_hash & 1023)) WHERE status = 'PENDING';
DROP INDEX IF EXISTS dlq.idx_dlq_messages_dlq_topic_pending;
CREATE INDEX idx_dlq_messages_dlq_topic_pending ON dlq.dlq_messages (dlq_topic, seq, (key_hash & 1023)) WHERE status = 'PENDING';

-- Bulk retries under way keep the lanes that they have: those of key_hash % lanes.
-- Earlier versions would use these for new ones too; without the columns above they fail.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM information_schema.columns
                   WHERE table_schema = 'dlq' AND table_name = 'dlq_bulk_retries' AND column_name = 'modulo_lanes') THEN
        ALTER TABLE dlq.dlq_bulk_retries ADD COLUMN modulo_lanes BOOLEAN NOT NULL DEFAULT true;
        ALTER TABLE dlq.dlq_bulk_retries ALTER COLUMN modulo_lanes SET DEFAULT false;
    END IF;
END;
$$;
