-- dlq-db: messages of a bulk retry that have to wait

-- Bulk retries under way end here: what they have claimed goes back, uncounted, and
-- an operator starts them again. Their lanes know nothing of the tables below.
DO $$
BEGIN
    IF EXISTS (SELECT FROM information_schema.columns
               WHERE table_schema = 'dlq' AND table_name = 'dlq_bulk_retry_lanes' AND column_name = 'page') THEN
        RETURN;
    END IF;

    UPDATE dlq.dlq_messages m
    SET status = 'PENDING', retry_count = greatest(m.retry_count - 1, 0), workflow_id = '', owner_token = '', updated_at = now()
    FROM dlq.dlq_bulk_retries b
    WHERE b.ended_at IS NULL AND m.status = 'RETRYING' AND m.owner_token = b.id::text;

    UPDATE dlq.dlq_bulk_retries
    SET state = 'FAILED', reason = 'ended by an upgrade; start it again', ended_at = now(), updated_at = now(), counted = true
    WHERE ended_at IS NULL;
END;
$$;

-- PAUSING and CANCELLING claim nothing more, while the pages in hand come to an end.
ALTER TABLE dlq.dlq_bulk_retries
    DROP CONSTRAINT IF EXISTS chk_dlq_bulk_retries_state,
    ADD CONSTRAINT chk_dlq_bulk_retries_state
        CHECK (state IN ('RUNNING', 'PAUSING', 'PAUSED', 'CANCELLING', 'COMPLETED', 'CANCELLED', 'FAILED'));
DROP INDEX IF EXISTS dlq.idx_dlq_bulk_retries_live;
CREATE INDEX idx_dlq_bulk_retries_live ON dlq.dlq_bulk_retries (started_at, id) WHERE ended_at IS NULL;

-- A lane has dealt with every message up to its cursor, but for those of its page and
-- those that wait in a queue. The cursor never goes back.
ALTER TABLE dlq.dlq_bulk_retry_lanes
    DROP COLUMN IF EXISTS reached,
    DROP COLUMN IF EXISTS rewinds,
    DROP COLUMN IF EXISTS closed,
    ADD COLUMN IF NOT EXISTS page    UUID[] NOT NULL DEFAULT '{}', -- claimed and not finalized
    ADD COLUMN IF NOT EXISTS scheduled_at TIMESTAMPTZ NOT NULL DEFAULT '-infinity', -- of the activity that has the lane
    ADD COLUMN IF NOT EXISTS attempt INT NOT NULL DEFAULT 0,       -- of that activity; an earlier one may not open the lane
    ADD COLUMN IF NOT EXISTS waiting BIGINT NOT NULL DEFAULT 0;    -- how many of its messages wait in queues
-- Written twice for each page, a compressed array would cost more than it saves.
ALTER TABLE dlq.dlq_bulk_retry_lanes ALTER COLUMN page SET STORAGE EXTERNAL;

-- dlq_bulk_retry_queues: what messages of a bulk retry wait for.
--
-- A queue is either that of a target which is closed (key_hash is -1, lane is -1), or
-- that of a key whose first message has to wait. A message is blocked as long as an
-- earlier one of its key waits in any queue of the job.
CREATE TABLE IF NOT EXISTS dlq.dlq_bulk_retry_queues (
    id        BIGINT       GENERATED ALWAYS AS IDENTITY,
    bulk_id   UUID         NOT NULL REFERENCES dlq.dlq_bulk_retries ON DELETE CASCADE,
    lane      INT          NOT NULL,               -- that of the key, or -1
    topic     VARCHAR(255) NOT NULL,               -- that the messages go to
    partition INT          NOT NULL,               -- of the target; -1 is the topic as a whole
    key_hash  INT          NOT NULL,               -- of the key, or -1
    closed    BOOLEAN      NOT NULL,               -- the target takes nothing: one message at a time asks it again
    tries     INT          NOT NULL,               -- how often in a row it was asked in vain
    due_at    TIMESTAMPTZ  NOT NULL,               -- when it may be asked again
    reason    TEXT         NOT NULL,               -- what it said last
    category  VARCHAR(50)  NOT NULL,               -- of that error

    PRIMARY KEY (id),
    CONSTRAINT uq_dlq_bulk_retry_queues UNIQUE (bulk_id, topic, partition, key_hash)
);

-- The first finds the queues of a lane that are due. The second finds the targets that
-- are closed.
CREATE INDEX IF NOT EXISTS idx_dlq_bulk_retry_queues_due ON dlq.dlq_bulk_retry_queues (bulk_id, lane, due_at);
CREATE INDEX IF NOT EXISTS idx_dlq_bulk_retry_queues_closed ON dlq.dlq_bulk_retry_queues (bulk_id) WHERE closed;

-- dlq_bulk_retry_waiting: the messages in the queues. They are PENDING and uncounted.
CREATE TABLE IF NOT EXISTS dlq.dlq_bulk_retry_waiting (
    bulk_id    UUID   NOT NULL,
    queue_id   BIGINT NOT NULL,
    lane       INT    NOT NULL,
    seq        BIGINT NOT NULL, -- of the message, as are the others
    message_id UUID   NOT NULL,
    key_hash   INT    NOT NULL,

    PRIMARY KEY (bulk_id, queue_id, lane, seq)
);

-- Tells whether an earlier message of a key waits.
CREATE INDEX IF NOT EXISTS idx_dlq_bulk_retry_waiting_key ON dlq.dlq_bulk_retry_waiting (bulk_id, key_hash, seq);

-- dlq_bulk_retry_blocked_keys: the keys of messages that a bulk retry has failed. It
-- skips the later messages of these keys.
CREATE TABLE IF NOT EXISTS dlq.dlq_bulk_retry_blocked_keys (
    bulk_id  UUID         NOT NULL,
    key_hash INT          NOT NULL,
    topic    VARCHAR(255) NOT NULL, -- that the message goes to
    key      BYTEA        NOT NULL  -- too long for an index, sometimes; its hash never is
);

CREATE INDEX IF NOT EXISTS idx_dlq_bulk_retry_blocked_keys ON dlq.dlq_bulk_retry_blocked_keys (bulk_id, key_hash);

-- The first finds what is retried of a key by itself. Bulk retries leave it alone, and so
-- leave no dead entries in it. The second takes the place of the index of owners: a
-- lane keeps its page by itself.
DROP INDEX IF EXISTS dlq.idx_dlq_messages_owner;
CREATE INDEX IF NOT EXISTS idx_dlq_messages_retrying_alone ON dlq.dlq_messages (key_hash)
    WHERE status = 'RETRYING' AND workflow_id NOT LIKE 'retry-all-%';
CREATE INDEX IF NOT EXISTS idx_dlq_messages_retrying ON dlq.dlq_messages (key_hash, owner_token) WHERE status = 'RETRYING';

-- The blocked keys stand in a table of their own.
DROP INDEX IF EXISTS dlq.idx_dlq_messages_tried;
DROP INDEX IF EXISTS dlq.idx_dlq_retry_attempts_owner;
