-- dlq-db: ingest from Kafka and over HTTP

-- dlq_ingest_offsets: the position of the ingest in each partition.
--
-- The transaction that stores records also moves the position of their partition. The transaction fails
-- if the row does not have the position that the records were read from. So after a restore of the
-- database to any moment, the ingest continues at the position of that moment.
CREATE TABLE IF NOT EXISTS dlq.dlq_ingest_offsets (
    topic_id     UUID         NOT NULL,            -- Kafka's id of the topic: a re-created topic has another id
    partition    INT          NOT NULL,
    topic        VARCHAR(255) NOT NULL,
    next_offset  BIGINT       NOT NULL,            -- of the next record to read; -1 is the start of the log
    leader_epoch INT          NOT NULL,            -- of the record before next_offset, or -1
    lost         BIGINT       NOT NULL DEFAULT 0,  -- offsets that Kafka had deleted before they were read
    lost_at      TIMESTAMPTZ,                      -- when lost offsets were last noticed
    updated_at   TIMESTAMPTZ  NOT NULL DEFAULT NOW(),

    PRIMARY KEY (topic_id, partition)
) WITH (fillfactor = 50);

-- dlq_idempotency_keys: idempotency keys of requests with dead letters. A repeated request stores nothing.
CREATE TABLE IF NOT EXISTS dlq.dlq_idempotency_keys (
    key         BYTEA       PRIMARY KEY, -- SHA-256 of the sender's key, the sender and the topic
    request     BYTEA       NOT NULL,    -- SHA-256 of the request
    message_ids UUID[]      NOT NULL,
    used_at     TIMESTAMPTZ NOT NULL DEFAULT NOW()
);

-- Finds the keys that are old enough to be deleted.
CREATE INDEX IF NOT EXISTS idx_dlq_idempotency_keys_used_at ON dlq.dlq_idempotency_keys (used_at);
