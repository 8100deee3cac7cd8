-- Lock both tables at once. Locked one after the other, they would deadlock with the
-- statements of running workers. Between two tries, other sessions continue.
DO $$
BEGIN
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '900ms', true); -- below deadlock_timeout
            LOCK TABLE dlq.dlq_messages, dlq.dlq_messages_archive IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            PERFORM pg_sleep(0.3);
        END;
    END LOOP;
    PERFORM set_config('lock_timeout', '0', true);
END;
$$;

ALTER TABLE dlq.dlq_messages DROP COLUMN IF EXISTS target_id;
ALTER TABLE dlq.dlq_messages_archive DROP COLUMN IF EXISTS target_id;
DROP TABLE IF EXISTS dlq.dlq_targets, dlq.dlq_watermarks, dlq.dlq_watermark_groups, dlq.dlq_watermark_lease;
