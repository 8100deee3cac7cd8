-- dlq-db: who asked for which change

-- dlq_audit: each change that somebody asked for, and its outcome. A change and its row are written
-- in the same transaction. The rows hold ids, counts and filters, but no values, keys or headers.
CREATE TABLE IF NOT EXISTS dlq.dlq_audit (
    id          UUID         PRIMARY KEY,             -- made by the program, not by the database
    at          TIMESTAMPTZ  NOT NULL DEFAULT NOW(),
    subject     TEXT         NOT NULL,                -- who: the subject of an OIDC token, or the name of a static token
    method      TEXT         NOT NULL,                -- how the subject was authenticated: none, token or oidc
    address     TEXT         NOT NULL,                -- of the client
    action      TEXT         NOT NULL,                -- the permission that the request needed
    topic       VARCHAR(255) NOT NULL,                -- '' when unknown
    target      TEXT         NOT NULL,                -- message, job, group, archive or process
    target_id   UUID,                                 -- null if the request named no target
    reason      TEXT         NOT NULL,                -- the operator's note
    request_id  TEXT         NOT NULL,
    workflow_id TEXT         NOT NULL,                -- of the workflow that makes the change
    outcome     TEXT         NOT NULL,                -- done, accepted, refused, failed or cancelled
    detail      JSONB                                 -- the filter, the counts or the error
);

-- For lists by time: all operations; the operations of a target, a subject or a topic; and single retries.
CREATE INDEX IF NOT EXISTS idx_dlq_audit_at ON dlq.dlq_audit (at, id);
CREATE INDEX IF NOT EXISTS idx_dlq_audit_target ON dlq.dlq_audit (target_id, at, id) WHERE target_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_dlq_audit_subject ON dlq.dlq_audit (subject, at, id);
CREATE INDEX IF NOT EXISTS idx_dlq_audit_topic ON dlq.dlq_audit (topic, at, id);
CREATE INDEX IF NOT EXISTS idx_dlq_audit_retries ON dlq.dlq_audit (at, id) WHERE action = 'dlq:message:retry' AND outcome = 'accepted';

-- Nobody can change a row, not even the owner of the table. Only rows older than 30 days can be
-- deleted.
CREATE OR REPLACE FUNCTION dlq.protect_audit() RETURNS TRIGGER
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_OP = 'DELETE' AND OLD.at < NOW() - INTERVAL '720 hours' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'rows of dlq.dlq_audit cannot be changed, and not be deleted in their first 30 days'
        USING ERRCODE = 'insufficient_privilege';
END;
$$;

CREATE OR REPLACE TRIGGER trg_dlq_audit_protect
    BEFORE UPDATE OR DELETE ON dlq.dlq_audit
    FOR EACH ROW EXECUTE FUNCTION dlq.protect_audit();
CREATE OR REPLACE TRIGGER trg_dlq_audit_protect_all
    BEFORE TRUNCATE ON dlq.dlq_audit
    FOR EACH STATEMENT EXECUTE FUNCTION dlq.protect_audit();

-- Deletes up to p_batch_size rows that are older than p_cutoff and older than 30 days, and returns
-- their number. The function runs with the rights of the table's owner, since the role of the programs
-- may not delete rows.
CREATE OR REPLACE FUNCTION dlq.purge_audit(p_cutoff TIMESTAMPTZ, p_batch_size INT) RETURNS INT
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_deleted INT;
BEGIN
    IF p_cutoff IS NULL THEN
        RAISE EXCEPTION 'p_cutoff must not be null' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF p_batch_size IS NULL OR p_batch_size <= 0 THEN
        RAISE EXCEPTION 'p_batch_size must be greater than 0, not %', p_batch_size
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    DELETE FROM dlq.dlq_audit
    WHERE id = ANY (ARRAY(
        SELECT id
        FROM dlq.dlq_audit
        WHERE at < least(p_cutoff, NOW() - INTERVAL '720 hours')
        ORDER BY at, id
        LIMIT p_batch_size
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_deleted = ROW_COUNT;
    RETURN v_deleted;
END;
$$;

REVOKE EXECUTE ON FUNCTION dlq.protect_audit(), dlq.purge_audit(TIMESTAMPTZ, INT) FROM PUBLIC;

-- dlq_audit_runs: the workflow runs of single retries, each with the operation that started the run. The
-- claim of the message writes the row, so a run without a claim has no row. A bulk retry needs no row: the
-- owner_token of its attempts is the id of the job, and the job is the target of the operation.
CREATE TABLE IF NOT EXISTS dlq.dlq_audit_runs (
    operation_id UUID NOT NULL REFERENCES dlq.dlq_audit (id) ON DELETE CASCADE,
    run_id       TEXT NOT NULL,                         -- owner_token of the message and of its attempts
    PRIMARY KEY (operation_id, run_id)
);

-- Nobody can change a row, not even the owner of the table. The foreign key deletes a row together
-- with its operation. Nothing else can delete a row.
CREATE OR REPLACE FUNCTION dlq.protect_audit_runs() RETURNS TRIGGER
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'rows of dlq.dlq_audit_runs cannot be changed, and are deleted with those of dlq.dlq_audit only'
        USING ERRCODE = 'insufficient_privilege';
END;
$$;

CREATE OR REPLACE TRIGGER trg_dlq_audit_runs_protect
    BEFORE UPDATE OR DELETE ON dlq.dlq_audit_runs
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION dlq.protect_audit_runs();
CREATE OR REPLACE TRIGGER trg_dlq_audit_runs_protect_all
    BEFORE TRUNCATE ON dlq.dlq_audit_runs
    FOR EACH STATEMENT EXECUTE FUNCTION dlq.protect_audit_runs();

REVOKE EXECUTE ON FUNCTION dlq.protect_audit_runs() FROM PUBLIC;

-- dlq_archive_runs: the runs of the archive that are not in the audit yet. The transaction of each batch
-- adds the number of its messages. When the run has ended, or has been interrupted for a while, the row
-- moves to dlq_audit, where nobody can change it.
CREATE TABLE IF NOT EXISTS dlq.dlq_archive_runs (
    run_id      TEXT        PRIMARY KEY,             -- of the workflow's run in Temporal
    workflow_id TEXT        NOT NULL,
    archived    BIGINT      NOT NULL DEFAULT 0,      -- number of archived messages
    purged      BIGINT      NOT NULL DEFAULT 0,      -- number of purged messages
    retention   INTERVAL,                            -- messages that ended longer ago were archived; null if nothing was archived
    purge_after INTERVAL,                            -- messages that ended longer ago were purged; null if nothing was purged
    started_at  TIMESTAMPTZ NOT NULL DEFAULT NOW(),  -- of the first batch
    updated_at  TIMESTAMPTZ NOT NULL DEFAULT NOW()   -- of the last batch
);
