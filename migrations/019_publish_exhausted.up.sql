-- dlq-db: exhausted messages that must still be published to their archive topics

-- The transaction in which a message has used up its retries adds a row, and the worker
-- deletes it after the archive topic has acknowledged the message. The key lets the worker
-- read the messages of a topic in their order of arrival. A topic without an archive topic
-- keeps its rows and does not slow down the others.
CREATE TABLE IF NOT EXISTS dlq.dlq_exhausted_outbox (
    dlq_topic   VARCHAR(255) NOT NULL,
    seq         BIGINT       NOT NULL,               -- of the message
    message_id  UUID         NOT NULL,
    ended_at    TIMESTAMPTZ  NOT NULL DEFAULT NOW(), -- tells the end of a revived message from an earlier one
    retry_count INT          NOT NULL,               -- of the message when it ended
    max_retries INT          NOT NULL,               -- likewise
    error       TEXT         NOT NULL,               -- the last one
    PRIMARY KEY (dlq_topic, seq, message_id)
);
