-- dlq-db: bulk retries and their lanes

CREATE TABLE IF NOT EXISTS dlq.dlq_bulk_retries (
    id          UUID         PRIMARY KEY, -- the workflow's first run id
    workflow_id TEXT         NOT NULL,
    topic       VARCHAR(255) NOT NULL,
    state       VARCHAR(50)  NOT NULL DEFAULT 'RUNNING',
    reason      TEXT         NOT NULL DEFAULT '',
    lanes       INT          NOT NULL,
    bound       BIGINT       NOT NULL, -- the newest seq at the start; what came later is not taken
    matched     BIGINT       NOT NULL,
    skipped     BIGINT       NOT NULL DEFAULT 0, -- known at the end
    started_at  TIMESTAMPTZ  NOT NULL DEFAULT NOW(),
    updated_at  TIMESTAMPTZ  NOT NULL DEFAULT NOW(),
    ended_at    TIMESTAMPTZ,

    CONSTRAINT chk_dlq_bulk_retries_state CHECK (state IN ('RUNNING', 'COMPLETED', 'CANCELLED', 'FAILED'))
);

CREATE INDEX IF NOT EXISTS idx_dlq_bulk_retries_started_at ON dlq.dlq_bulk_retries (started_at, id);

-- One row for each parallel scan. It is written twice for each page, so the
-- table keeps room for updates in place.
CREATE TABLE IF NOT EXISTS dlq.dlq_bulk_retry_lanes (
    bulk_id    UUID        NOT NULL REFERENCES dlq.dlq_bulk_retries ON DELETE CASCADE,
    lane       INT         NOT NULL,
    cursor     BIGINT      NOT NULL DEFAULT 0, -- the seq up to which it has claimed
    retried    BIGINT      NOT NULL DEFAULT 0,
    failed     BIGINT      NOT NULL DEFAULT 0,
    dead       BIGINT      NOT NULL DEFAULT 0,
    ended      BOOLEAN     NOT NULL DEFAULT false, -- nothing may be claimed any more
    updated_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),

    PRIMARY KEY (bulk_id, lane)
) WITH (fillfactor = 50);
