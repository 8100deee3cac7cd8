-- dlq-db: the order of a key between bulk retries

-- The topic that all messages go to; NULL while it is not known, or when there are many.
ALTER TABLE dlq.dlq_bulk_retries ADD COLUMN IF NOT EXISTS target VARCHAR(255);

-- Finds what is retried of a key by itself. Bulk retries leave it alone, and so leave no
-- dead entries in it: a lane keeps its page by itself.
DROP INDEX IF EXISTS dlq.idx_dlq_messages_retrying;
DROP INDEX IF EXISTS dlq.idx_dlq_messages_retrying_alone;
CREATE INDEX idx_dlq_messages_retrying_alone ON dlq.dlq_messages (key_hash, seq)
    WHERE status = 'RETRYING' AND workflow_id NOT LIKE 'retry-all-%';

-- A row that was written by hand has no key, so it has nothing to do with the others.
ALTER TABLE dlq.dlq_messages_archive ALTER COLUMN key_hash SET DEFAULT (random() * 2147483647)::int;
ALTER TABLE dlq.dlq_messages ALTER COLUMN key_hash SET DEFAULT (random() * 2147483647)::int;
ALTER TABLE dlq.dlq_messages DISABLE TRIGGER trg_dlq_messages_updated_at;
UPDATE dlq.dlq_messages m
SET key_hash = (random() * 2147483647)::int
WHERE key_hash = 0 AND status IN ('PENDING', 'RETRYING') AND NOT EXISTS (SELECT FROM dlq.dlq_message_bodies b WHERE b.message_id = m.id);
ALTER TABLE dlq.dlq_messages ENABLE TRIGGER trg_dlq_messages_updated_at;
