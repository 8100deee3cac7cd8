DROP VIEW IF EXISTS dlq.dlq_bulk_retry_lanes_now;
ALTER TABLE dlq.dlq_bulk_retry_lanes
    DROP CONSTRAINT IF EXISTS dlq_bulk_retry_lanes_pkey,
    ADD PRIMARY KEY (bulk_id, lane);
ALTER TABLE dlq.dlq_bulk_retry_lanes DROP COLUMN IF EXISTS pages;

-- A bulk retry with lanes of buckets cannot go on: what it has claimed is released, and
-- an operator starts it again.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM information_schema.columns
                   WHERE table_schema = 'dlq' AND table_name = 'dlq_bulk_retries' AND column_name = 'modulo_lanes') THEN
        RETURN;
    END IF;

    UPDATE dlq.dlq_messages m
    SET status = 'PENDING', retry_count = greatest(m.retry_count - 1, 0), workflow_id = '', owner_token = '', updated_at = now()
    FROM dlq.dlq_bulk_retries b
    WHERE b.ended_at IS NULL AND NOT b.modulo_lanes AND m.status = 'RETRYING' AND m.owner_token = b.id::text;

    UPDATE dlq.dlq_bulk_retries
    SET state = 'FAILED', reason = 'ended by a downgrade; start it again', ended_at = now(), updated_at = now(), counted = true
    WHERE ended_at IS NULL AND NOT modulo_lanes;
END;
$$;
ALTER TABLE dlq.dlq_bulk_retries DROP COLUMN IF EXISTS modulo_lanes;

DROP INDEX IF EXISTS dlq.idx_dlq_messages_dlq_topic_pending;
CREATE INDEX idx_dlq_messages_dlq_topic_pending ON dlq.dlq_messages (dlq_topic, seq) WHERE status = 'PENDING';
DROP INDEX IF EXISTS dlq.idx_dlq_messages_original_topic_pending;
CREATE INDEX idx_dlq_messages_original_topic_pending ON dlq.dlq_messages (original_topic, seq) WHERE status = 'PENDING';

DO $$
DECLARE
    renamed RECORD;
BEGIN
    FOR renamed IN
        SELECT * FROM (VALUES ('allowance', 'step_limit'), ('bound', 'upper_bound'),
                              ('frozen_at', 'snapshot_at'), ('mixed', 'multi_target')) AS names (before, after)
        JOIN information_schema.columns c
            ON c.table_schema = 'dlq' AND c.table_name = 'dlq_bulk_retries' AND c.column_name = names.after
    LOOP
        EXECUTE format('ALTER TABLE dlq.dlq_bulk_retries RENAME COLUMN %I TO %I', renamed.after, renamed.before);
    END LOOP;
END;
$$;
