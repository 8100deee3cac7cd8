-- dlq-db: which request asked for a retry

-- dlq_audit_runs: the workflow runs that an operation of the audit has started, for single
-- retries. The claim of the message writes the row, so a run without a claim has none. The
-- attempts of a bulk retry have its id, which is the target of the operation.
CREATE TABLE IF NOT EXISTS dlq.dlq_audit_runs (
    operation_id UUID NOT NULL REFERENCES dlq.dlq_audit (id) ON DELETE CASCADE,
    run_id       TEXT NOT NULL,                         -- owner_token of the message and of its attempts
    PRIMARY KEY (operation_id, run_id)
);

-- Nobody changes a row, the owner of the table included. A row is deleted together with its
-- operation only, in the trigger of the foreign key.
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
