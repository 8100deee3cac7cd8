-- dlq-db: the state and the bytes of dead letters

-- dlq_messages: the state of each dead letter. Other programs may insert rows with values for the first
-- ten columns and without values for the other columns.
--
-- A change of status copies little. PostgreSQL writes a new version of a row at each change, and a
-- retry changes its row twice. A payload in the TOAST table is not copied: the row has a pointer to
-- the payload. When a row has more than 2 kB, PostgreSQL moves values to the TOAST table until the row
-- has about 512 bytes (toast_tuple_target). Most rows would have less than 2 kB. So each row has a
-- ballast: an array of 32 empty values of the type NAME, which take 64 bytes each. The ballast takes
-- the row over 2 kB, and is then compressed to 50 bytes.
--
-- Half of each page is free, so the new version of a row fits on the page of the old version. A bulk
-- retry makes a rare status frequent. With statistics from before the retry, the planner may use the
-- index of statuses instead of the index of topics. So autovacuum renews the statistics early.
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

    -- Indexed columns come directly after the ten documented columns, since PostgreSQL reads the first columns of a row faster.
    seq              BIGINT       NOT NULL GENERATED ALWAYS AS IDENTITY, -- order of arrival, with gaps
    -- Hash of the record key. The hash decides which lane of a bulk retry sends the message. A message
    -- without a key has a random hash, since messages without a key have no order.
    key_hash         INT          NOT NULL DEFAULT (random() * 2147483647)::int,
    in_page          BOOLEAN      NOT NULL DEFAULT false, -- while RETRYING: the message is in the page of a lane
    suspicious       BOOLEAN      NOT NULL DEFAULT false, -- dlq_message_bodies.suspicion says why
    group_id         UUID,                              -- its group of failures; null in rows of other programs
    previous_id      UUID,                              -- the message that came back as this one, or the original of this copy
    dlq_topic        VARCHAR(255) NOT NULL DEFAULT '',  -- topic that the message was read from; '' in rows of other programs

    workflow_id      TEXT         NOT NULL DEFAULT '',  -- the workflow of the present or the last retry; '' without a retry
    -- The token of the present or the last retry: the first run id of a single retry's workflow, or
    -- the id of the bulk retry. '' without a retry.
    owner_token      TEXT         NOT NULL DEFAULT '',
    size             INT          NOT NULL DEFAULT 0,   -- bytes of key, value and headers; 0 in rows of other programs
    -- The row of dlq_targets; null unless the message was delivered. There is no foreign key, since
    -- its check would lock the row of the target at each delivery.
    target_id        INT,
    target_partition INT,                               -- partition and offset of the delivered record; null when unknown
    target_offset    BIGINT,
    -- Why the message ended: delivered, replaced, exhausted, refused or given_up. Null before the
    -- end, and if another program ended the message.
    resolution       VARCHAR(50),
    error_class      TEXT         NOT NULL DEFAULT '',  -- type of the exception; '' when unknown
    ballast          NAME[]       DEFAULT array_fill(''::name, ARRAY[32]),

    CONSTRAINT chk_dlq_messages_status CHECK (status IN ('PENDING', 'RETRYING', 'RESOLVED', 'DEAD'))
) WITH (toast_tuple_target = 512, fillfactor = 50, autovacuum_analyze_scale_factor = 0.01);

COMMENT ON COLUMN dlq.dlq_messages.ballast IS 'makes PostgreSQL store the payload out of line; means nothing';

-- A retry adds two entries to the index, one for each new version of the row. Half of each page of the
-- index is free, so these entries do not split pages.
ALTER INDEX dlq.dlq_messages_pkey SET (fillfactor = 50);

-- Lists of an original or a dead-letter topic are sorted by created_at, and by seq for messages of the
-- same moment. So each page of a list is an index scan, at any depth and in any span of time. A retry
-- writes one entry less to each index, because RETRYING messages are not in these indexes: see dlq.dlq_retrying.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_original_topic ON dlq.dlq_messages (original_topic, status, created_at, seq)
    WHERE status <> 'RETRYING';
CREATE INDEX IF NOT EXISTS idx_dlq_messages_dlq_topic ON dlq.dlq_messages (dlq_topic, status, created_at, seq)
    WHERE status <> 'RETRYING';

-- Lists of suspicious messages, and of messages in no group. Both lists are short.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_original_topic_suspicious ON dlq.dlq_messages (original_topic, status, created_at, seq)
    WHERE suspicious;
CREATE INDEX IF NOT EXISTS idx_dlq_messages_dlq_topic_suspicious ON dlq.dlq_messages (dlq_topic, status, created_at, seq)
    WHERE suspicious;
CREATE INDEX IF NOT EXISTS idx_dlq_messages_ungrouped ON dlq.dlq_messages (status, created_at, seq)
    WHERE group_id IS NULL AND status <> 'RETRYING';

-- The messages of a group.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_group ON dlq.dlq_messages (group_id, status, created_at, seq)
    WHERE group_id IS NOT NULL AND status <> 'RETRYING';

-- Bulk retries read the PENDING messages of a topic in the order of arrival. A retry that succeeds
-- writes no entry. The low 10 bits of key_hash put each message into one of 1,024 buckets. A lane, one
-- of the parallel scans of a bulk retry, has a range of buckets. It reads no rows of other buckets.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_original_topic_pending ON dlq.dlq_messages (original_topic, seq, (key_hash & 1023))
    WHERE status = 'PENDING';
CREATE INDEX IF NOT EXISTS idx_dlq_messages_dlq_topic_pending ON dlq.dlq_messages (dlq_topic, seq, (key_hash & 1023))
    WHERE status = 'PENDING';

-- The RETRYING messages that are in no page of a lane, by key and in the order of arrival.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_retrying ON dlq.dlq_messages (key_hash, seq) WHERE status = 'RETRYING' AND NOT in_page;

-- RESOLVED and DEAD messages by age, for the archive.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_status ON dlq.dlq_messages (status, updated_at) WHERE status IN ('RESOLVED', 'DEAD');

-- A BRIN index is enough: the rows lie in the table nearly in the order of created_at.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_created_at ON dlq.dlq_messages USING brin (created_at);

-- Finds the copies of a message, and the message that it became when it came back. Most messages have no previous_id.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_previous ON dlq.dlq_messages (previous_id) WHERE previous_id IS NOT NULL;

-- Sets updated_at after a statement that has not set updated_at itself. A trigger BEFORE UPDATE could set it before the row is
-- written. But PostgreSQL locks each row for such a trigger, even if the condition of the trigger does not hold. These locks
-- would slow down every retry.
CREATE OR REPLACE TRIGGER trg_dlq_messages_updated_at
    AFTER UPDATE ON dlq.dlq_messages
    REFERENCING OLD TABLE AS outdated NEW TABLE AS updated
    FOR EACH STATEMENT
    EXECUTE FUNCTION dlq.update_updated_at();

-- dlq_message_bodies: the bytes of each dead letter, exactly as they were consumed, and the facts
-- that its headers name.
--
-- A body is written once and never updated, so a change of status does not copy the body. A body stays
-- in this table when its message moves to the archive, so there is no foreign key. A body is deleted
-- when its message is deleted or purged.
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
    origin_partition    INT,                        -- partition and offset in the original topic; null when unknown
    origin_offset       BIGINT,
    origin_family       TEXT   NOT NULL DEFAULT '', -- the header family that named the origin, or 'topic-name'
    stack_trace         TEXT   NOT NULL DEFAULT '',
    origin_timestamp    TIMESTAMPTZ,                -- of the record in the original topic
    consumer_group      TEXT   NOT NULL DEFAULT '', -- the group whose consumer failed
    cause_class         TEXT   NOT NULL DEFAULT '', -- type of the exception's cause
    origin_attempts     INT,                        -- how often the consumer tried the record
    trace_id            TEXT   NOT NULL DEFAULT '',
    correlation_id      TEXT   NOT NULL DEFAULT '',
    suspicion           TEXT   NOT NULL DEFAULT '', -- why the message is suspicious
    schema_id           BIGINT,                     -- schema id of a Schema Registry, from the value; null without a schema
    schema_format       TEXT,                       -- AVRO, PROTOBUF or JSON
    schema_subject      TEXT,                       -- a subject of the registry that has the schema
    schema_version      INT,                        -- version of the schema in this subject
    schema_message_type TEXT,                       -- full name of the Protobuf message or the Avro record
    decode_error        TEXT                        -- why the payload does not have the decoded value
);

-- The messages of a key. A key may be too long for an index; its hash never is.
CREATE INDEX IF NOT EXISTS idx_dlq_message_bodies_key ON dlq.dlq_message_bodies (key_hash) WHERE key IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_dlq_message_bodies_origin ON dlq.dlq_message_bodies (origin_offset, origin_partition)
    WHERE origin_offset IS NOT NULL;

-- A hash index takes ids of any length. For random ids it writes half as much WAL as a B-tree.
CREATE INDEX IF NOT EXISTS idx_dlq_message_bodies_trace ON dlq.dlq_message_bodies USING hash (trace_id) WHERE trace_id <> '';
CREATE INDEX IF NOT EXISTS idx_dlq_message_bodies_correlation ON dlq.dlq_message_bodies USING hash (correlation_id) WHERE correlation_id <> '';
