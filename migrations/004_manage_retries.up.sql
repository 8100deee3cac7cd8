-- dlq-db: order of arrival, original bytes, retries of one message and in bulk

-- dlq_messages: the state of each dead letter.
ALTER TABLE dlq.dlq_messages
    -- Order of arrival, with gaps. It becomes NOT NULL and an identity below.
    ADD COLUMN IF NOT EXISTS seq         BIGINT,
    -- The topic it was read from; '' for rows from before this migration and for
    -- those of programs that know only the documented columns.
    ADD COLUMN IF NOT EXISTS dlq_topic   VARCHAR(255) NOT NULL DEFAULT '',
    -- Type of the exception; '' when unknown.
    ADD COLUMN IF NOT EXISTS error_class TEXT         NOT NULL DEFAULT '',
    -- Hash of the record key, or of the message's id when the record has no key.
    -- It decides the lane of a bulk retry.
    ADD COLUMN IF NOT EXISTS key_hash    INT          NOT NULL DEFAULT 0,
    -- The workflow that retries it, or last did; '' when none ever has.
    ADD COLUMN IF NOT EXISTS workflow_id TEXT         NOT NULL DEFAULT '',
    -- The claim's token: the first run id of a single retry's workflow, or the id
    -- of the bulk retry. It stays after the retry; '' when there was none.
    ADD COLUMN IF NOT EXISTS owner_token TEXT         NOT NULL DEFAULT '',
    -- The message that this one was before it was republished and failed again.
    ADD COLUMN IF NOT EXISTS previous_id UUID;

-- The archive takes rows as they are, so it has the same columns in the same
-- order. Its seq is not an identity, since archived rows keep the number they had.
ALTER TABLE dlq.dlq_messages_archive
    ADD COLUMN IF NOT EXISTS seq         BIGINT,
    ADD COLUMN IF NOT EXISTS dlq_topic   VARCHAR(255) NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS error_class TEXT         NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS key_hash    INT          NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS workflow_id TEXT         NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS owner_token TEXT         NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS previous_id UUID;

-- Rows from before this migration are numbered by their age. One that is
-- RETRYING has no owner that could ever end its retry, so the retry counts as
-- failed. None of this is a change of the message, so updated_at stays.
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

-- A change of status copies little. PostgreSQL writes a row anew whenever it
-- changes, and a retry changes it twice.
--
-- A payload that is stored out of line is not copied: the row holds a pointer to
-- it. PostgreSQL considers that only for rows of more than 2 kB, whatever
-- toast_tuple_target says, which is about how far such a row is then cut down.
-- Most payloads are smaller. So each row carries a ballast that takes it over
-- the threshold and is compressed to 50 bytes there: 32 empty names, since that
-- is the type which is long in storage and short to look at. Payloads from before
-- this migration move out of line when their row changes next.
ALTER TABLE dlq.dlq_messages ADD COLUMN IF NOT EXISTS ballast NAME[] DEFAULT array_fill(''::name, ARRAY[32]);
COMMENT ON COLUMN dlq.dlq_messages.ballast IS 'makes PostgreSQL store the payload out of line; means nothing';
ALTER TABLE dlq.dlq_messages_archive ADD COLUMN IF NOT EXISTS ballast NAME[] DEFAULT array_fill(''::name, ARRAY[32]);

-- With half of each page free, the new version of a row fits on the page of the
-- old one. A bulk retry turns one status into another that was rare until then.
-- The planner has to know soon: it may take the index of statuses for that of
-- topics.
ALTER TABLE dlq.dlq_messages SET (toast_tuple_target = 512, fillfactor = 50, autovacuum_analyze_scale_factor = 0.01);

-- Statements that say when they changed a row need no trigger for it.
CREATE OR REPLACE TRIGGER trg_dlq_messages_updated_at
    BEFORE UPDATE ON dlq.dlq_messages
    FOR EACH ROW
    WHEN (OLD.updated_at IS NOT DISTINCT FROM NEW.updated_at)
    EXECUTE FUNCTION dlq.update_updated_at();

-- The documented indexes keep their names and leading columns.
--
-- Lists of a topic, which is an original or a dead-letter topic, follow
-- created_at: a page is one index scan at any depth, and one of a span of time is
-- as cheap as any. seq tells messages of one moment apart.
DROP INDEX IF EXISTS dlq.idx_dlq_messages_original_topic;
CREATE INDEX idx_dlq_messages_original_topic ON dlq.dlq_messages (original_topic, status, created_at, seq);
CREATE INDEX IF NOT EXISTS idx_dlq_messages_dlq_topic ON dlq.dlq_messages (dlq_topic, status, created_at, seq);

-- Bulk retries take the PENDING messages of a topic in the order of arrival. An
-- entry is written to each index where a message becomes PENDING, when it is
-- stored or its retry fails; a retry that succeeds writes none.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_original_topic_pending ON dlq.dlq_messages (original_topic, seq) WHERE status = 'PENDING';
CREATE INDEX IF NOT EXISTS idx_dlq_messages_dlq_topic_pending ON dlq.dlq_messages (dlq_topic, seq) WHERE status = 'PENDING';

-- Finds the messages that are due for the archive, by age.
DROP INDEX IF EXISTS dlq.idx_dlq_messages_status;
CREATE INDEX idx_dlq_messages_status ON dlq.dlq_messages (status, updated_at);

-- Finds the messages that an owner has claimed and not finalized. Small at all
-- times: it holds only those that are being retried right now.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_owner ON dlq.dlq_messages (owner_token, seq) WHERE status = 'RETRYING';

-- Finds the messages that a bulk retry has failed or skipped, whose keys it holds
-- back. Small: of the PENDING messages it holds only those that have been claimed.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_tried ON dlq.dlq_messages (owner_token) WHERE status = 'PENDING' AND owner_token <> '';

-- Finds the archived messages that are due to be purged, by age.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_archive_updated_at ON dlq.dlq_messages_archive (updated_at);

-- dlq_message_bodies: the dead letters' own bytes, exactly as they were consumed.
--
-- They are written once and never updated, so a change of status does not copy
-- them. They stay here when their message moves to the archive, which is why no
-- foreign key can lead there; they go when the message is deleted or purged.
CREATE TABLE IF NOT EXISTS dlq.dlq_message_bodies (
    message_id       UUID   PRIMARY KEY,
    topic_id         UUID,                       -- Kafka's id of the topic: a topic made anew is another
    partition        INT,
    record_offset    BIGINT,
    key              BYTEA,                      -- null is Kafka's null
    key_hash         INT,                        -- as in dlq_messages; null without a key
    value            BYTEA,                      -- null is Kafka's null
    headers          BYTEA  NOT NULL,            -- in Kafka's own encoding of record headers
    record_timestamp TIMESTAMPTZ,
    origin_partition INT,                        -- of the original topic, as is origin_offset; null when unknown
    origin_offset    BIGINT,
    origin_family    TEXT   NOT NULL DEFAULT '', -- the header family that named the origin, or 'topic-name'
    stack_trace      TEXT   NOT NULL DEFAULT '',

    -- One record is one message, however often it is consumed.
    CONSTRAINT uq_dlq_message_bodies_source UNIQUE (topic_id, partition, record_offset)
);

-- Finds the messages of a key. A key may be too long for an index; its hash
-- never is.
CREATE INDEX IF NOT EXISTS idx_dlq_message_bodies_key ON dlq.dlq_message_bodies (key_hash) WHERE key IS NOT NULL;

-- dlq_retry_attempts: the retries that ended without delivery.
--
-- They stay when their message moves to the archive and go when it is deleted
-- or purged.
CREATE TABLE IF NOT EXISTS dlq.dlq_retry_attempts (
    id          BIGINT      GENERATED ALWAYS AS IDENTITY,
    message_id  UUID        NOT NULL,
    number      INT         NOT NULL,               -- the retry count that it was claimed with
    workflow_id TEXT        NOT NULL,               -- the owner of that retry, as in dlq_messages
    owner_token TEXT        NOT NULL,               -- likewise: the claim's token
    started_at  TIMESTAMPTZ NOT NULL,               -- when it was claimed
    ended_at    TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    result      VARCHAR(50) NOT NULL,               -- failed, or rejected when it can never work
    category    VARCHAR(50) NOT NULL,               -- of the error
    error       TEXT        NOT NULL,

    PRIMARY KEY (message_id, id)
);

-- Finds the messages that a bulk retry has attempted and not delivered.
CREATE INDEX IF NOT EXISTS idx_dlq_retry_attempts_owner ON dlq.dlq_retry_attempts (owner_token);

-- dlq_bulk_retries: each retry of many messages, its frozen scope and its state.
--
-- A throttled job writes its row for each page, so the table keeps room for
-- updates in place.
CREATE TABLE IF NOT EXISTS dlq.dlq_bulk_retries (
    id          UUID         PRIMARY KEY,                -- made by whoever asks for it; it is also the token of its claims
    workflow_id TEXT         NOT NULL,
    topic       VARCHAR(255) NOT NULL,                   -- an original or a dead-letter topic
    spec        JSONB        NOT NULL DEFAULT '{}',      -- the request; its rate limit is the one at the start
    rate_limit  INT          NOT NULL DEFAULT 0,         -- messages per second, 0 is no limit
    allowance   BIGINT,                                  -- how many messages may still be claimed, null is no limit
    next_at     TIMESTAMPTZ  NOT NULL DEFAULT NOW(),     -- when the rate limit allows the next claim
    state       VARCHAR(50)  NOT NULL DEFAULT 'RUNNING',
    reason      TEXT         NOT NULL DEFAULT '',        -- why it is paused, waiting, cancelled or failed
    lanes       INT          NOT NULL,
    bound       BIGINT       NOT NULL,                   -- the last seq that was given out at the start; later arrivals are not taken
    frozen_at   TIMESTAMPTZ  NOT NULL,                   -- when its scope was fixed; messages that changed later are not taken
    matched     BIGINT       NOT NULL DEFAULT 0,         -- how many messages in its scope can be retried
    mixed       BOOLEAN      NOT NULL DEFAULT false,     -- they have more than one target
    counted     BOOLEAN      NOT NULL DEFAULT false,     -- whether matched and mixed are known yet
    skipped     BIGINT       NOT NULL DEFAULT 0,         -- never claimed; known at the end
    came_back   BIGINT       NOT NULL DEFAULT 0,         -- sent, and dead letters again
    started_at  TIMESTAMPTZ  NOT NULL DEFAULT NOW(),
    updated_at  TIMESTAMPTZ  NOT NULL DEFAULT NOW(),
    ended_at    TIMESTAMPTZ,                             -- null until it has ended

    CONSTRAINT chk_dlq_bulk_retries_state CHECK (state IN ('RUNNING', 'PAUSED', 'COMPLETED', 'CANCELLED', 'FAILED')),
    CONSTRAINT chk_dlq_bulk_retries_limits CHECK (rate_limit >= 0 AND allowance >= 0)
) WITH (fillfactor = 50);

-- The first lists the newest. The second finds those under way, which a new one
-- must not overlap with, among any number that have ended.
CREATE INDEX IF NOT EXISTS idx_dlq_bulk_retries_started_at ON dlq.dlq_bulk_retries (started_at, id);
CREATE INDEX IF NOT EXISTS idx_dlq_bulk_retries_live ON dlq.dlq_bulk_retries (started_at, id) WHERE state IN ('RUNNING', 'PAUSED');

-- dlq_bulk_retry_lanes: the parallel scans of each bulk retry.
--
-- A row is written twice for each page, so the table keeps room for updates in
-- place.
CREATE TABLE IF NOT EXISTS dlq.dlq_bulk_retry_lanes (
    bulk_id           UUID        NOT NULL REFERENCES dlq.dlq_bulk_retries ON DELETE CASCADE,
    lane              INT         NOT NULL,               -- from 0; messages belong to the lane key_hash % lanes
    cursor            BIGINT      NOT NULL DEFAULT 0,     -- the seq up to which it has claimed
    reached           BIGINT      NOT NULL DEFAULT 0,     -- the furthest that the cursor has been
    rewinds           BIGINT      NOT NULL DEFAULT 0,     -- how often the cursor may have gone back
    retried           BIGINT      NOT NULL DEFAULT 0,     -- delivered
    failed            BIGINT      NOT NULL DEFAULT 0,     -- PENDING again
    dead              BIGINT      NOT NULL DEFAULT 0,     -- not delivered, and not to be tried again
    skipped           BIGINT      NOT NULL DEFAULT 0,     -- claimed and not sent, being blocked
    window_started_at TIMESTAMPTZ NOT NULL DEFAULT NOW(), -- of the ten seconds that are being counted
    window_count      BIGINT      NOT NULL DEFAULT 0,     -- messages that were delivered or failed in them
    previous_count    BIGINT      NOT NULL DEFAULT 0,     -- likewise, of the ten seconds before
    epoch             INT         NOT NULL DEFAULT 0,     -- which attempt may claim and finalize
    closed            BOOLEAN     NOT NULL DEFAULT false, -- paused or ended: nothing may be claimed
    updated_at        TIMESTAMPTZ NOT NULL DEFAULT NOW(),

    PRIMARY KEY (bulk_id, lane)
) WITH (fillfactor = 50);
