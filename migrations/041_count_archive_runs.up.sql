-- dlq-db: how many messages each run of the archive has moved and deleted

-- dlq_archive_runs: the runs of the archive whose end is not in the audit yet. Each batch adds its
-- messages in its own transaction. The row moves to dlq_audit, where nobody can change it, once
-- the run has ended, or has been interrupted for a while.
CREATE TABLE IF NOT EXISTS dlq.dlq_archive_runs (
    run_id      TEXT        PRIMARY KEY,             -- of the workflow's run in Temporal
    workflow_id TEXT        NOT NULL,
    archived    BIGINT      NOT NULL DEFAULT 0,      -- messages
    purged      BIGINT      NOT NULL DEFAULT 0,      -- likewise
    retention   INTERVAL,                            -- messages that ended longer ago were archived; null if none was
    purge_after INTERVAL,                            -- likewise, purged
    started_at  TIMESTAMPTZ NOT NULL DEFAULT NOW(),  -- of the first batch
    updated_at  TIMESTAMPTZ NOT NULL DEFAULT NOW()   -- of the last batch
);
