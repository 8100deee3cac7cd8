-- dlq-db: keys that make it harmless to hand the same dead letters in twice

CREATE TABLE IF NOT EXISTS dlq.dlq_idempotency_keys (
    key         BYTEA       PRIMARY KEY, -- SHA-256 of the sender's key, the sender and the topic
    request     BYTEA       NOT NULL,    -- SHA-256 of the request
    message_ids UUID[]      NOT NULL,
    used_at     TIMESTAMPTZ NOT NULL DEFAULT NOW()
);

-- Finds the keys that can be forgotten.
CREATE INDEX IF NOT EXISTS idx_dlq_idempotency_keys_used_at ON dlq.dlq_idempotency_keys (used_at);
