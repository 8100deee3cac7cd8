-- dlq-db: the dead letters' own bytes, exactly as they were consumed
--
-- They are written once and never updated, so a change of status does not copy
-- them. They stay here when their message moves to the archive, which is why no
-- foreign key can lead there; they go when the message is deleted or purged.

CREATE TABLE IF NOT EXISTS dlq.dlq_message_bodies (
    message_id       UUID   PRIMARY KEY,
    topic_id         UUID,   -- Kafka's id of the topic: a topic made anew is another
    partition        INT,
    record_offset    BIGINT,
    key              BYTEA,  -- null is Kafka's null
    key_hash         INT,    -- as in dlq_messages; null without a key
    value            BYTEA,  -- null is Kafka's null
    headers          BYTEA  NOT NULL, -- in Kafka's own encoding of record headers
    record_timestamp TIMESTAMPTZ,
    origin_partition INT,
    origin_offset    BIGINT,
    origin_family    TEXT   NOT NULL DEFAULT '',
    stack_trace      TEXT   NOT NULL DEFAULT '',

    -- One record is one message, however often it is consumed.
    CONSTRAINT uq_dlq_message_bodies_source UNIQUE (topic_id, partition, record_offset)
);

-- A key may be too long for an index; its hash never is.
CREATE INDEX IF NOT EXISTS idx_dlq_message_bodies_key ON dlq.dlq_message_bodies (key_hash) WHERE key IS NOT NULL;
