-- dlq-db: order of arrival, dead-letter topic and owner of each message
--
-- seq           order of arrival
-- dlq_topic     the topic it was read from; '' for rows of before
-- error_class   type of the exception, '' when unknown
-- key_hash      decides the lane of a bulk retry
-- workflow_id,
-- run_id        who retries it, or last did; '' when nobody ever has
-- previous_id   what it was before it was republished and failed again

ALTER TABLE dlq.dlq_messages
    ADD COLUMN IF NOT EXISTS seq         BIGINT,
    ADD COLUMN IF NOT EXISTS dlq_topic   VARCHAR(255) NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS error_class TEXT         NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS key_hash    INT          NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS workflow_id TEXT         NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS run_id      TEXT         NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS previous_id UUID;

-- The same columns in the same order: the archive takes rows as they are. Its
-- seq is not an identity, since archived rows keep the number they had.
ALTER TABLE dlq.dlq_messages_archive
    ADD COLUMN IF NOT EXISTS seq         BIGINT,
    ADD COLUMN IF NOT EXISTS dlq_topic   VARCHAR(255) NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS error_class TEXT         NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS key_hash    INT          NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS workflow_id TEXT         NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS run_id      TEXT         NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS previous_id UUID;

-- Rows of before are numbered by their age. One that is RETRYING has no owner
-- that could ever end its retry, so the retry counts as failed. None of this is
-- a change of the message, so updated_at stays.
DO $$
BEGIN
    IF EXISTS (SELECT FROM information_schema.columns
               WHERE table_schema = 'dlq' AND table_name = 'dlq_messages'
                 AND column_name = 'seq' AND is_identity = 'YES') THEN
        RETURN;
    END IF;

    ALTER TABLE dlq.dlq_messages DISABLE TRIGGER trg_dlq_messages_updated_at;

    CREATE TEMPORARY TABLE dlq_numbers ON COMMIT DROP AS
    SELECT id, archived, row_number() OVER (ORDER BY created_at, id) AS seq
    FROM (SELECT id, created_at, false AS archived FROM dlq.dlq_messages
          UNION ALL
          SELECT id, created_at, true FROM dlq.dlq_messages_archive) AS every_message;

    UPDATE dlq.dlq_messages m
    SET seq = n.seq,
        status = CASE WHEN status <> 'RETRYING' THEN status
                      WHEN retry_count < max_retries THEN 'PENDING'
                      ELSE 'DEAD' END
    FROM dlq_numbers n
    WHERE n.id = m.id AND NOT n.archived;

    UPDATE dlq.dlq_messages_archive a
    SET seq = n.seq
    FROM dlq_numbers n
    WHERE n.id = a.id AND n.archived;

    ALTER TABLE dlq.dlq_messages ENABLE TRIGGER trg_dlq_messages_updated_at;
    ALTER TABLE dlq.dlq_messages_archive ALTER COLUMN seq SET NOT NULL;
    ALTER TABLE dlq.dlq_messages ALTER COLUMN seq SET NOT NULL;
    ALTER TABLE dlq.dlq_messages ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY;
    PERFORM setval(pg_get_serial_sequence('dlq.dlq_messages', 'seq'),
                   (SELECT count(*) + 1 FROM dlq_numbers), false);
END;
$$;

-- The documented indexes keep their names and leading columns. What they carry
-- more makes a page of a topic, in the order of arrival, one index scan at any
-- depth, and finds what is due for the archive by age.
DROP INDEX IF EXISTS dlq.idx_dlq_messages_original_topic;
CREATE INDEX idx_dlq_messages_original_topic ON dlq.dlq_messages (original_topic, status, seq);
DROP INDEX IF EXISTS dlq.idx_dlq_messages_status;
CREATE INDEX idx_dlq_messages_status ON dlq.dlq_messages (status, updated_at);
CREATE INDEX IF NOT EXISTS idx_dlq_messages_dlq_topic ON dlq.dlq_messages (dlq_topic, status, seq);

-- Small at all times: it holds only what is being retried right now.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_owner ON dlq.dlq_messages (run_id, seq) WHERE status = 'RETRYING';

CREATE INDEX IF NOT EXISTS idx_dlq_messages_archive_updated_at ON dlq.dlq_messages_archive (updated_at);
