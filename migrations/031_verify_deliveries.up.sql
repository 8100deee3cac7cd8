-- dlq-db: where each message was delivered

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

    CONSTRAINT uq_dlq_targets UNIQUE NULLS NOT DISTINCT (topic, topic_id)
);
