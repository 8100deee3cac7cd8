-- dlq-db: archiving of old dead letters

-- dlq_messages_archive: RESOLVED and DEAD messages, unchanged. The table has the columns of dlq_messages
-- in the same order. A migration that adds a column to dlq_messages must add the column to this table too.
CREATE TABLE IF NOT EXISTS dlq.dlq_messages_archive (
    LIKE dlq.dlq_messages INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE,
    PRIMARY KEY (id)
);

-- For lists of a topic, as in dlq_messages; for the purge of old messages; and for the copies of a message and
-- the message that it became when it came back.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_archive_original_topic ON dlq.dlq_messages_archive (original_topic, status, created_at, seq);
CREATE INDEX IF NOT EXISTS idx_dlq_messages_archive_dlq_topic ON dlq.dlq_messages_archive (dlq_topic, status, created_at, seq);
CREATE INDEX IF NOT EXISTS idx_dlq_messages_archive_updated_at ON dlq.dlq_messages_archive (updated_at);
CREATE INDEX IF NOT EXISTS idx_dlq_messages_archive_previous ON dlq.dlq_messages_archive (previous_id) WHERE previous_id IS NOT NULL;

-- The archived messages of a group, in the order of lists.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_archive_group ON dlq.dlq_messages_archive (group_id, status, created_at, seq)
    WHERE group_id IS NOT NULL;

-- Finds the dead-letter topics in which an original topic has archived messages. Equal entries are stored once.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_archive_topics ON dlq.dlq_messages_archive (original_topic, dlq_topic);

-- Archives at most p_batch_size RESOLVED and DEAD messages whose last change was before p_cutoff, and
-- returns their number. The rows go from DELETE … RETURNING straight into INSERT, so exactly the deleted
-- rows are archived. Rows that another transaction has locked are left for a later batch.
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
        -- A conflict means that somebody has copied the row by hand.
        ON CONFLICT (id) DO NOTHING
    )
    SELECT count(*) INTO v_moved FROM deleted;

    RETURN v_moved;
END;
$$;

-- Commits each batch, so no lock is held for long. A procedure that commits cannot be called
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
