-- dlq-db: dead letters: their state, and their bytes

-- dlq_messages: the state of each dead letter. Other programs may insert rows with the first
-- ten columns only.
--
-- A change of status copies little. PostgreSQL writes a new version of a row at each change, and a
-- retry changes its row twice. A payload that is stored out of line is not copied: the row holds a
-- pointer to the payload. PostgreSQL stores values out of line only in rows of more than 2 kB, and
-- then shrinks such a row to about toast_tuple_target. Most payloads are smaller. So each row carries
-- a ballast of 32 empty names, which takes the row over the threshold and is then compressed to
-- 50 bytes. This type is long in storage and short in output.
--
-- Half of each page is free, so the new version of a row fits on the page of the old version. A bulk
-- retry makes a rare status frequent. So statistics are renewed early: with old statistics the
-- planner may use the index of statuses instead of the index of topics.
CREATE TABLE IF NOT EXISTS dlq.dlq_messages (
    id               UUID         PRIMARY KEY DEFAULT gen_random_uuid(),
    original_topic   VARCHAR(255) NOT NULL,
    error_message    TEXT         NOT NULL,
    retry_count      INT          NOT NULL DEFAULT 0,
    max_retries      INT          NOT NULL DEFAULT 3,
    payload          JSONB,
    status           VARCHAR(50)  NOT NULL DEFAULT 'PENDING',
    created_at       TIMESTAMPTZ  NOT NULL DEFAULT NOW(),
    updated_at       TIMESTAMPTZ  NOT NULL DEFAULT NOW(),
    last_retry_at    TIMESTAMPTZ,

    -- Columns of indexes come directly after the ten documented columns: PostgreSQL reaches a column through the columns before it.
    seq              BIGINT       NOT NULL GENERATED ALWAYS AS IDENTITY, -- order of arrival, with gaps
    -- Hash of the record key, which decides the lane of a bulk retry. A message without a key
    -- has a random hash, since such a message has no order.
    key_hash         INT          NOT NULL DEFAULT (random() * 2147483647)::int,
    in_page          BOOLEAN      NOT NULL DEFAULT false, -- while RETRYING: the message is in the page of a lane
    suspicious       BOOLEAN      NOT NULL DEFAULT false, -- dlq_message_bodies.suspicion says why
    group_id         UUID,                              -- of its cause; null in rows of other programs
    previous_id      UUID,                              -- the message that this message was before a retry that failed again
    dlq_topic        VARCHAR(255) NOT NULL DEFAULT '',  -- where the message was read; '' in rows of other programs

    workflow_id      TEXT         NOT NULL DEFAULT '',  -- the workflow that retries the message, or did so last; '' if none has
    -- The claim's token: the first run id of a single retry's workflow, or the id of the bulk
    -- retry. The id stays after the retry; '' without a retry.
    owner_token      TEXT         NOT NULL DEFAULT '',
    size             INT          NOT NULL DEFAULT 0,   -- bytes of key, value and headers; 0 in rows of other programs
    -- The row of dlq_targets; null unless the message was delivered. There is no foreign key, since
    -- its check would lock the target for each message.
    target_id        INT,
    target_partition INT,                               -- where the target has the delivered message; null when unknown
    target_offset    BIGINT,
    -- Why the message ended: delivered, replaced, exhausted, refused or given_up. Null before its
    -- end, and where another program ended the message.
    resolution       VARCHAR(50),
    error_class      TEXT         NOT NULL DEFAULT '',  -- type of the exception; '' when unknown
    ballast          NAME[]       DEFAULT array_fill(''::name, ARRAY[32]),

    CONSTRAINT chk_dlq_messages_status CHECK (status IN ('PENDING', 'RETRYING', 'RESOLVED', 'DEAD'))
) WITH (toast_tuple_target = 512, fillfactor = 50, autovacuum_analyze_scale_factor = 0.01);

COMMENT ON COLUMN dlq.dlq_messages.ballast IS 'makes PostgreSQL store the payload out of line; means nothing';

-- A retry adds two entries, for the two new versions of its row. The pages of the index have space
-- for these entries, and are not split.
ALTER INDEX dlq.dlq_messages_pkey SET (fillfactor = 50);

-- Lists of a topic, which is an original or a dead-letter topic, follow created_at: a page is an
-- index scan at any depth and in any span of time. seq tells messages of the same moment apart.
-- RETRYING messages are few and listed apart, so that a retry writes fewer entries.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_original_topic ON dlq.dlq_messages (original_topic, status, created_at, seq)
    WHERE status <> 'RETRYING';
CREATE INDEX IF NOT EXISTS idx_dlq_messages_dlq_topic ON dlq.dlq_messages (dlq_topic, status, created_at, seq)
    WHERE status <> 'RETRYING';

-- Lists of suspicious messages, and of messages in no group. Both are few.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_original_topic_suspicious ON dlq.dlq_messages (original_topic, status, created_at, seq)
    WHERE suspicious;
CREATE INDEX IF NOT EXISTS idx_dlq_messages_dlq_topic_suspicious ON dlq.dlq_messages (dlq_topic, status, created_at, seq)
    WHERE suspicious;
CREATE INDEX IF NOT EXISTS idx_dlq_messages_ungrouped ON dlq.dlq_messages (status, created_at, seq)
    WHERE group_id IS NULL AND status <> 'RETRYING';

-- The messages of a group.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_group ON dlq.dlq_messages (group_id, status, created_at, seq)
    WHERE group_id IS NOT NULL AND status <> 'RETRYING';

-- Bulk retries take the PENDING messages of a topic in the order of arrival. A retry that
-- succeeds writes no entry. Each message is in one of 1,024 buckets. A lane has a range of
-- buckets, and skips the entries of other lanes without reading their rows.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_original_topic_pending ON dlq.dlq_messages (original_topic, seq, (key_hash & 1023))
    WHERE status = 'PENDING';
CREATE INDEX IF NOT EXISTS idx_dlq_messages_dlq_topic_pending ON dlq.dlq_messages (dlq_topic, seq, (key_hash & 1023))
    WHERE status = 'PENDING';

-- The RETRYING messages that are in no page. The messages of a key are in the order of arrival.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_retrying ON dlq.dlq_messages (key_hash, seq) WHERE status = 'RETRYING' AND NOT in_page;

-- RESOLVED and DEAD messages by age, for the archive.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_status ON dlq.dlq_messages (status, updated_at) WHERE status IN ('RESOLVED', 'DEAD');

-- Messages lie in the table nearly in the order of their creation.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_created_at ON dlq.dlq_messages USING brin (created_at);

-- The messages that a message became when it came back. The index is small: most messages never come back.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_previous ON dlq.dlq_messages (previous_id) WHERE previous_id IS NOT NULL;

-- A trigger BEFORE UPDATE could change the row before it is written. But PostgreSQL would lock each row for such a trigger, also
-- if its condition does not hold, which takes a fifteenth of the time of a retry's statements.
CREATE OR REPLACE TRIGGER trg_dlq_messages_updated_at
    AFTER UPDATE ON dlq.dlq_messages
    REFERENCING OLD TABLE AS outdated NEW TABLE AS updated
    FOR EACH STATEMENT
    EXECUTE FUNCTION dlq.update_updated_at();

-- dlq_message_bodies: the dead letters' own bytes, exactly as they were consumed, and the facts
-- that their headers name.
--
-- They are written once and never updated, so a change of status does not copy them. They stay
-- here when their message moves to the archive, so there is no foreign key. They are deleted when
-- the message is deleted or purged.
CREATE TABLE IF NOT EXISTS dlq.dlq_message_bodies (
    message_id          UUID   PRIMARY KEY,
    topic_id            UUID,                       -- Kafka's id of the topic: a re-created topic has another id
    partition           INT,
    record_offset       BIGINT,
    key                 BYTEA,                      -- null is Kafka's null
    key_hash            INT,                        -- as in dlq_messages; null without a key
    value               BYTEA,                      -- null is Kafka's null
    headers             BYTEA  NOT NULL,            -- in Kafka's own encoding of record headers
    record_timestamp    TIMESTAMPTZ,
    origin_partition    INT,                        -- of the original topic, as is origin_offset; null when unknown
    origin_offset       BIGINT,
    origin_family       TEXT   NOT NULL DEFAULT '', -- the header family that named the origin, or 'topic-name'
    stack_trace         TEXT   NOT NULL DEFAULT '',
    origin_timestamp    TIMESTAMPTZ,                -- of the record in the original topic
    consumer_group      TEXT   NOT NULL DEFAULT '', -- the group whose consumer failed
    cause_class         TEXT   NOT NULL DEFAULT '', -- type of the exception's cause
    origin_attempts     INT,                        -- how often the consumer tried
    trace_id            TEXT   NOT NULL DEFAULT '',
    correlation_id      TEXT   NOT NULL DEFAULT '',
    suspicion           TEXT   NOT NULL DEFAULT '', -- why the message is suspicious
    schema_id           BIGINT,                     -- of a Schema Registry, as in the value; null without a schema
    schema_format       TEXT,                       -- AVRO, PROTOBUF or JSON
    schema_subject      TEXT,                       -- a subject that has the schema,
    schema_version      INT,                        -- and its version there
    schema_message_type TEXT,                       -- full name of the Protobuf message or the Avro record
    decode_error        TEXT                        -- why the payload does not have the value
);

-- The messages of a key. A key may be too long for an index; its hash never is.
CREATE INDEX IF NOT EXISTS idx_dlq_message_bodies_key ON dlq.dlq_message_bodies (key_hash) WHERE key IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_dlq_message_bodies_origin ON dlq.dlq_message_bodies (origin_offset, origin_partition)
    WHERE origin_offset IS NOT NULL;

-- A hash index takes ids of any length, and for random ids needs half the WAL of a B-tree.
CREATE INDEX IF NOT EXISTS idx_dlq_message_bodies_trace ON dlq.dlq_message_bodies USING hash (trace_id) WHERE trace_id <> '';
CREATE INDEX IF NOT EXISTS idx_dlq_message_bodies_correlation ON dlq.dlq_message_bodies USING hash (correlation_id) WHERE correlation_id <> '';
