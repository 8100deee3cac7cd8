-- dlq-db: why a message ended, where it was sent, and all that its headers say about its failure

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

ALTER TABLE dlq.dlq_messages
    -- Why the message ended: delivered, replaced, exhausted, refused or given_up. Null
    -- before it ends, and where an earlier version or another program ended it.
    ADD COLUMN IF NOT EXISTS resolution       VARCHAR(50),
    -- Where the original topic has the delivered message; null when unknown.
    ADD COLUMN IF NOT EXISTS target_partition INT,
    ADD COLUMN IF NOT EXISTS target_offset    BIGINT,
    -- Its headers are known to attack consumers. dlq_message_bodies.suspicion says how.
    ADD COLUMN IF NOT EXISTS suspicious       BOOLEAN NOT NULL DEFAULT false;

-- The archive takes rows as they are, so it has the same columns in the same order.
ALTER TABLE dlq.dlq_messages_archive
    ADD COLUMN IF NOT EXISTS resolution       VARCHAR(50),
    ADD COLUMN IF NOT EXISTS target_partition INT,
    ADD COLUMN IF NOT EXISTS target_offset    BIGINT,
    ADD COLUMN IF NOT EXISTS suspicious       BOOLEAN NOT NULL DEFAULT false;

-- What the headers say, beside the columns that exist; '' or null when they do not say it.
ALTER TABLE dlq.dlq_message_bodies
    ADD COLUMN IF NOT EXISTS origin_timestamp TIMESTAMPTZ,              -- of the record in the original topic
    ADD COLUMN IF NOT EXISTS consumer_group   TEXT NOT NULL DEFAULT '', -- the group whose consumer failed
    ADD COLUMN IF NOT EXISTS cause_class      TEXT NOT NULL DEFAULT '', -- type of the exception's cause
    ADD COLUMN IF NOT EXISTS origin_attempts  INT,                      -- how often the consumer tried
    ADD COLUMN IF NOT EXISTS trace_id         TEXT NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS correlation_id   TEXT NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS suspicion        TEXT NOT NULL DEFAULT ''; -- why the message is suspicious

-- Finds the messages that a message became when it came back. Small: most never do.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_previous ON dlq.dlq_messages (previous_id) WHERE previous_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_dlq_messages_archive_previous ON dlq.dlq_messages_archive (previous_id) WHERE previous_id IS NOT NULL;
