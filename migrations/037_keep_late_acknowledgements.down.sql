DO $$
BEGIN
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '900ms', true); -- below deadlock_timeout
            LOCK TABLE dlq.dlq_messages, dlq.dlq_retry_attempts IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            PERFORM pg_sleep(0.3);
        END;
    END LOOP;
    PERFORM set_config('lock_timeout', '0', true);
END;
$$;

DROP TRIGGER IF EXISTS trg_dlq_messages_delivered ON dlq.dlq_messages;
DROP FUNCTION IF EXISTS dlq.keep_delivery();

ALTER TABLE dlq.dlq_retry_attempts
    DROP COLUMN IF EXISTS target_id,
    DROP COLUMN IF EXISTS target_partition,
    DROP COLUMN IF EXISTS target_offset;
