-- dlq-db: where each message was delivered, and whether a consumer got past it

-- Lock both tables at once. Locked one after the other, they would deadlock with the
-- statements of running workers. Between two tries, other sessions continue.
DO $$
BEGIN
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '900ms', true); -- below deadlock_timeout
            LOCK TABLE dlq.dlq_messages, dlq.dlq_messages_archive IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            PERFORM pg_sleep(0.3);
        END;
    END LOOP;
    PERFORM set_config('lock_timeout', '0', true);
END;
$$;

-- The row of dlq_targets; null unless the message was delivered, and for deliveries of
-- earlier versions. There is no foreign key: its check would lock the target for each
-- message. The archive takes rows as they are, so it has the same columns in the same order.
ALTER TABLE dlq.dlq_messages ADD COLUMN IF NOT EXISTS target_id INT;
ALTER TABLE dlq.dlq_messages_archive ADD COLUMN IF NOT EXISTS target_id INT;

-- dlq_targets: where messages were delivered. A topic that was deleted and created again
-- has another topic id, and is another target.
CREATE TABLE IF NOT EXISTS dlq.dlq_targets (
    id       INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic    TEXT NOT NULL, -- a topic, or http:NAME for an endpoint
    topic_id UUID,          -- Kafka's; null for endpoints, and when unknown
    -- No topic has this id any more, so its offsets mean nothing.
    changed  BOOLEAN NOT NULL DEFAULT false,

    CONSTRAINT uq_dlq_targets UNIQUE NULLS NOT DISTINCT (topic, topic_id)
);

-- dlq_watermarks: the committed offsets of consumer groups. A delivered message is verified
-- when its group has committed an offset beyond it.
CREATE TABLE IF NOT EXISTS dlq.dlq_watermarks (
    consumer_group   TEXT   NOT NULL,
    target_id        INT    NOT NULL, -- of dlq_targets
    partition        INT    NOT NULL,
    committed_offset BIGINT NOT NULL, -- of the next record to read

    PRIMARY KEY (consumer_group, target_id, partition)
) WITH (fillfactor = 50);

-- dlq_watermark_groups: the groups that were fetched.
CREATE TABLE IF NOT EXISTS dlq.dlq_watermark_groups (
    consumer_group TEXT PRIMARY KEY,
    error          TEXT NOT NULL -- why Kafka refused its offsets, or ''
);

-- dlq_watermark_lease: one row, of the process that publishes watermarks.
CREATE TABLE IF NOT EXISTS dlq.dlq_watermark_lease (
    only_row     BOOLEAN     PRIMARY KEY DEFAULT true CHECK (only_row),
    holder       UUID        NOT NULL,
    epoch        BIGINT      NOT NULL, -- grows with each change of the holder
    expires_at   TIMESTAMPTZ NOT NULL,
    watermark_at TIMESTAMPTZ           -- when the published offsets were fetched; null before
) WITH (fillfactor = 50);
