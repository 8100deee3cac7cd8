-- dlq-db: bulk retries and their lanes

-- A throttled job writes its row for each page, so the table keeps room for
-- updates in place.
CREATE TABLE IF NOT EXISTS dlq.dlq_bulk_retries (
    id          UUID         PRIMARY KEY, -- the workflow's first run id
    workflow_id TEXT         NOT NULL,
    topic       VARCHAR(255) NOT NULL,
    spec        JSONB        NOT NULL DEFAULT '{}', -- what was asked for; the rate limit as it was at the start
    rate_limit  INT          NOT NULL DEFAULT 0, -- messages per second, 0 is no limit
    allowance   BIGINT,                          -- how many messages may still be claimed, null is no limit
    next_at     TIMESTAMPTZ  NOT NULL DEFAULT NOW(), -- when the rate limit allows the next claim
    state       VARCHAR(50)  NOT NULL DEFAULT 'RUNNING',
    reason      TEXT         NOT NULL DEFAULT '',
    lanes       INT          NOT NULL,
    bound       BIGINT       NOT NULL, -- the newest seq at the start; what came later is not taken
    matched     BIGINT       NOT NULL,
    mixed       BOOLEAN      NOT NULL DEFAULT false, -- they have more than one target
    skipped     BIGINT       NOT NULL DEFAULT 0, -- never claimed; known at the end
    came_back   BIGINT       NOT NULL DEFAULT 0, -- sent, and dead letters again
    started_at  TIMESTAMPTZ  NOT NULL DEFAULT NOW(),
    updated_at  TIMESTAMPTZ  NOT NULL DEFAULT NOW(),
    ended_at    TIMESTAMPTZ,

    CONSTRAINT chk_dlq_bulk_retries_state CHECK (state IN ('RUNNING', 'PAUSED', 'COMPLETED', 'CANCELLED', 'FAILED')),
    CONSTRAINT chk_dlq_bulk_retries_limits CHECK (rate_limit >= 0 AND allowance >= 0)
) WITH (fillfactor = 50);

CREATE INDEX IF NOT EXISTS idx_dlq_bulk_retries_started_at ON dlq.dlq_bulk_retries (started_at, id);
CREATE INDEX IF NOT EXISTS idx_dlq_bulk_retries_live ON dlq.dlq_bulk_retries (started_at, id) WHERE state IN ('RUNNING', 'PAUSED');

-- One row for each parallel scan. It is written twice for each page, so the
-- table keeps room for updates in place.
CREATE TABLE IF NOT EXISTS dlq.dlq_bulk_retry_lanes (
    bulk_id           UUID        NOT NULL REFERENCES dlq.dlq_bulk_retries ON DELETE CASCADE,
    lane              INT         NOT NULL,
    cursor            BIGINT      NOT NULL DEFAULT 0, -- the seq up to which it has claimed
    reached           BIGINT      NOT NULL DEFAULT 0, -- the furthest that the cursor has been
    rewinds           BIGINT      NOT NULL DEFAULT 0, -- how often the cursor may have gone back
    retried           BIGINT      NOT NULL DEFAULT 0,
    failed            BIGINT      NOT NULL DEFAULT 0,
    dead              BIGINT      NOT NULL DEFAULT 0,
    skipped           BIGINT      NOT NULL DEFAULT 0, -- claimed and held back
    window_started_at TIMESTAMPTZ NOT NULL DEFAULT NOW(), -- of the ten seconds that are being counted
    window_count      BIGINT      NOT NULL DEFAULT 0,
    previous_count    BIGINT      NOT NULL DEFAULT 0,     -- of the ten seconds before
    epoch             INT         NOT NULL DEFAULT 0, -- which attempt may claim and finalize
    closed            BOOLEAN     NOT NULL DEFAULT false, -- paused or ended: nothing may be claimed
    updated_at        TIMESTAMPTZ NOT NULL DEFAULT NOW(),

    PRIMARY KEY (bulk_id, lane)
) WITH (fillfactor = 50);

-- What a job attempted and did not deliver.
CREATE INDEX IF NOT EXISTS idx_dlq_retry_attempts_run ON dlq.dlq_retry_attempts (run_id);

-- Small: of the pending messages only those that a job has failed or skipped.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_tried ON dlq.dlq_messages (run_id) WHERE status = 'PENDING' AND run_id <> '';
