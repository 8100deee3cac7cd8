-- dlq-db: the retries that ended without delivery
--
-- They stay when their message moves to the archive and go when it is deleted
-- or purged.

CREATE TABLE IF NOT EXISTS dlq.dlq_retry_attempts (
    id          BIGINT      GENERATED ALWAYS AS IDENTITY,
    message_id  UUID        NOT NULL,
    number      INT         NOT NULL, -- the retry count that it was claimed with
    workflow_id TEXT        NOT NULL,
    run_id      TEXT        NOT NULL,
    started_at  TIMESTAMPTZ NOT NULL,
    ended_at    TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    result      VARCHAR(50) NOT NULL,
    category    VARCHAR(50) NOT NULL,
    error       TEXT        NOT NULL,

    PRIMARY KEY (message_id, id)
);
