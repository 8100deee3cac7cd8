-- dlq-db: a change of status copies little
--
-- PostgreSQL writes a row anew whenever it changes, and a retry changes it
-- twice. What follows keeps those copies small and takes work off each.

-- A payload that is stored out of line is not copied: the row holds a pointer to
-- it. PostgreSQL considers that only for rows of more than 2 kB, whatever
-- toast_tuple_target says, which is about how far such a row is then cut down.
-- Most payloads are smaller. So each row carries a ballast that takes it over
-- the threshold and is compressed to 50 bytes there: 32 empty names, since that
-- is the type which is long in storage and short to look at. Payloads of before
-- move out of line when their row changes for the first time.
ALTER TABLE dlq.dlq_messages ADD COLUMN IF NOT EXISTS ballast NAME[] DEFAULT array_fill(''::name, ARRAY[32]);
COMMENT ON COLUMN dlq.dlq_messages.ballast IS 'makes PostgreSQL store the payload out of line; means nothing';
ALTER TABLE dlq.dlq_messages SET (toast_tuple_target = 512);

-- The same columns: the archive takes rows as they are.
ALTER TABLE dlq.dlq_messages_archive ADD COLUMN IF NOT EXISTS ballast NAME[] DEFAULT array_fill(''::name, ARRAY[32]);

-- The new version of a row fits on the page of the old one.
ALTER TABLE dlq.dlq_messages SET (fillfactor = 50);

-- A bulk retry turns one status into another that was rare until then. The planner
-- has to know soon: it may take the index of statuses for that of topics.
ALTER TABLE dlq.dlq_messages SET (autovacuum_analyze_scale_factor = 0.01);

-- Statements that say when they changed a row need no trigger for it.
CREATE OR REPLACE TRIGGER trg_dlq_messages_updated_at
    BEFORE UPDATE ON dlq.dlq_messages
    FOR EACH ROW
    WHEN (OLD.updated_at IS NOT DISTINCT FROM NEW.updated_at)
    EXECUTE FUNCTION dlq.update_updated_at();
