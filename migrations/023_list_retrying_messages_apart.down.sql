-- Lock all tables at once. Locked one after the other, they would deadlock with the
-- statements of running workers. Between two tries, other sessions continue.
DO $$
BEGIN
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '900ms', true); -- below deadlock_timeout
            LOCK TABLE dlq.dlq_messages, dlq.dlq_messages_archive, dlq.dlq_bulk_retries, dlq.dlq_bulk_retry_lanes IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            PERFORM pg_sleep(0.3);
        END;
    END LOOP;
    PERFORM set_config('lock_timeout', '0', true);
END;
$$;

DROP PROCEDURE IF EXISTS dlq.replace_former_indexes();
DROP INDEX IF EXISTS dlq.idx_dlq_messages_original_topic_listed, dlq.idx_dlq_messages_dlq_topic_listed, dlq.idx_dlq_messages_retrying;
DO $$
BEGIN
    IF to_regclass('dlq.idx_dlq_messages_retrying_alone') IS NULL THEN -- the former indexes were replaced
        DROP INDEX IF EXISTS dlq.idx_dlq_messages_original_topic, dlq.idx_dlq_messages_dlq_topic;
        CREATE INDEX idx_dlq_messages_original_topic ON dlq.dlq_messages (original_topic, status, created_at, seq);
        CREATE INDEX idx_dlq_messages_dlq_topic ON dlq.dlq_messages (dlq_topic, status, created_at, seq);
        CREATE INDEX idx_dlq_messages_retrying_alone ON dlq.dlq_messages (key_hash, seq)
            WHERE status = 'RETRYING' AND workflow_id NOT LIKE 'retry-all-%';
    END IF;
END;
$$;

DROP VIEW IF EXISTS dlq.dlq_retrying;
DROP TRIGGER IF EXISTS trg_dlq_bulk_retry_lanes_deleted ON dlq.dlq_bulk_retry_lanes;
DROP FUNCTION IF EXISTS dlq.abandon_page();
DROP TRIGGER IF EXISTS trg_dlq_bulk_retries_ended ON dlq.dlq_bulk_retries;
DROP FUNCTION IF EXISTS dlq.abandon_pages();
DROP TRIGGER IF EXISTS trg_dlq_messages_left_page ON dlq.dlq_messages;
DROP FUNCTION IF EXISTS dlq.leave_page();
ALTER TABLE dlq.dlq_messages DROP COLUMN IF EXISTS in_page;
ALTER TABLE dlq.dlq_messages_archive DROP COLUMN IF EXISTS in_page;
