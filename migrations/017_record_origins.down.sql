-- Lock all tables at once. Locked one after the other, they would deadlock with the
-- statements of running workers. Between two tries, other sessions continue.
DO $$
BEGIN
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '900ms', true); -- below deadlock_timeout
            LOCK TABLE dlq.dlq_messages, dlq.dlq_messages_archive, dlq.dlq_message_bodies IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            PERFORM pg_sleep(0.3);
        END;
    END LOOP;
    PERFORM set_config('lock_timeout', '0', true);
END;
$$;

DROP INDEX IF EXISTS dlq.idx_dlq_messages_previous;
DROP INDEX IF EXISTS dlq.idx_dlq_messages_archive_previous;

ALTER TABLE dlq.dlq_message_bodies
    DROP COLUMN IF EXISTS origin_timestamp,
    DROP COLUMN IF EXISTS consumer_group,
    DROP COLUMN IF EXISTS cause_class,
    DROP COLUMN IF EXISTS origin_attempts,
    DROP COLUMN IF EXISTS trace_id,
    DROP COLUMN IF EXISTS correlation_id,
    DROP COLUMN IF EXISTS suspicion;

ALTER TABLE dlq.dlq_messages
    DROP COLUMN IF EXISTS resolution,
    DROP COLUMN IF EXISTS target_partition,
    DROP COLUMN IF EXISTS target_offset,
    DROP COLUMN IF EXISTS suspicious;

ALTER TABLE dlq.dlq_messages_archive
    DROP COLUMN IF EXISTS resolution,
    DROP COLUMN IF EXISTS target_partition,
    DROP COLUMN IF EXISTS target_offset,
    DROP COLUMN IF EXISTS suspicious;
