-- dlq-db: the intake from Kafka and over HTTP

-- dlq_ingest_offsets: how far each partition has been taken in.
--
-- A row moves in the transaction that stores the records before the new position, and only if
-- it still has the position of the reader. So after a restore of the database to any moment,
-- reading continues at the position of that moment.
CREATE TABLE IF NOT EXISTS dlq.dlq_ingest_offsets (
    topic_id     UUID         NOT NULL,            -- Kafka's id of the topic: a re-created topic has another id
    partition    INT          NOT NULL,
    topic        VARCHAR(255) NOT NULL,
    next_offset  BIGINT       NOT NULL,            -- of the next record to read; -1 is the start of the log
    leader_epoch INT          NOT NULL,            -- of the record before next_offset, or -1
    lost         BIGINT       NOT NULL DEFAULT 0,  -- offsets that Kafka had deleted before they were read
    lost_at      TIMESTAMPTZ,                      -- when that was last noticed
    updated_at   TIMESTAMPTZ  NOT NULL DEFAULT NOW(),

    PRIMARY KEY (topic_id, partition)
) WITH (fillfactor = 50);

-- dlq_idempotency_keys: keys that make a second hand-in of the same dead letters harmless.
CREATE TABLE IF NOT EXISTS dlq.dlq_idempotency_keys (
    key         BYTEA       PRIMARY KEY, -- SHA-256 of the sender's key, the sender and the topic
    request     BYTEA       NOT NULL,    -- SHA-256 of the request
    message_ids UUID[]      NOT NULL,
    used_at     TIMESTAMPTZ NOT NULL DEFAULT NOW()
);

-- Finds the keys that can be forgotten.
CREATE INDEX IF NOT EXISTS idx_dlq_idempotency_keys_used_at ON dlq.dlq_idempotency_keys (used_at);
