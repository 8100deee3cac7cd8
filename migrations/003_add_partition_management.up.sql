-- dlq-db: archiving of old dead letters

CREATE TABLE IF NOT EXISTS dlq.dlq_messages_archive (
    LIKE dlq.dlq_messages INCLUDING ALL
);

-- Moves at most p_batch_size messages that were RESOLVED or DEAD before
-- p_cutoff, and returns how many. What is deleted is what is archived: the rows
-- go from DELETE … RETURNING straight into INSERT, in one statement. Rows that
-- another transaction holds are left for the next time.
--
-- Both tables must have the same columns in the same order: a migration that
-- adds one to dlq_messages adds it to the archive too.
CREATE OR REPLACE FUNCTION dlq.archive_dlq_messages_batch(p_cutoff TIMESTAMPTZ, p_batch_size INT)
RETURNS INT
LANGUAGE plpgsql
AS $$
DECLARE
    v_moved INT;
BEGIN
    IF p_cutoff IS NULL THEN
        RAISE EXCEPTION 'p_cutoff must not be null' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF p_batch_size IS NULL OR p_batch_size <= 0 THEN
        RAISE EXCEPTION 'p_batch_size must be greater than 0, not %', p_batch_size
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    WITH chosen AS (
        SELECT id
        FROM dlq.dlq_messages
        WHERE status IN ('RESOLVED', 'DEAD')
          AND updated_at < p_cutoff
        LIMIT p_batch_size
        FOR UPDATE SKIP LOCKED
    ),
    deleted AS (
        DELETE FROM dlq.dlq_messages m
        USING chosen c
        WHERE m.id = c.id
        RETURNING m.*
    ),
    archived AS (
        INSERT INTO dlq.dlq_messages_archive
        SELECT * FROM deleted
        -- Only a copy that an earlier version of the procedure left behind can
        -- be in the way. Both statuses are final, so it says the same.
        ON CONFLICT (id) DO NOTHING
    )
    SELECT count(*) INTO v_moved FROM deleted;

    RETURN v_moved;
END;
$$;

-- Commits each batch, so no lock is held for long, and so it cannot be called
-- inside a transaction.
CREATE OR REPLACE PROCEDURE dlq.archive_old_dlq_messages(
    p_retention_days INT DEFAULT 30,
    p_batch_size INT DEFAULT 1000
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_cutoff TIMESTAMPTZ;
    v_archived_count BIGINT := 0;
    v_batch_count INT;
BEGIN
    IF p_retention_days IS NULL OR p_retention_days <= 0 THEN
        RAISE EXCEPTION 'p_retention_days must be greater than 0, not %', p_retention_days
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    v_cutoff := NOW() - make_interval(days => p_retention_days);

    LOOP
        v_batch_count := dlq.archive_dlq_messages_batch(v_cutoff, p_batch_size);
        v_archived_count := v_archived_count + v_batch_count;
        EXIT WHEN v_batch_count = 0;
        COMMIT;
    END LOOP;

    RAISE NOTICE 'Archived % DLQ messages older than % days', v_archived_count, p_retention_days;
END;
$$;
