-- dlq-db: fewer index entries for each retry

-- A retry changes the status of a message twice. Each time PostgreSQL writes an entry to
-- every index that has the row, so the two that need not have all rows, or not exactly,
-- are made smaller. Their names and first columns are as documented.
--
-- The archive asks for what has been RESOLVED or DEAD for long. Messages that are
-- RETRYING are found by their topics, or by idx_dlq_messages_retrying_alone.
DROP INDEX IF EXISTS dlq.idx_dlq_messages_status;
CREATE INDEX idx_dlq_messages_status ON dlq.dlq_messages (status, updated_at) WHERE status IN ('RESOLVED', 'DEAD');

-- Messages lie in the table in the order of their creation, nearly.
DROP INDEX IF EXISTS dlq.idx_dlq_messages_created_at;
CREATE INDEX idx_dlq_messages_created_at ON dlq.dlq_messages USING brin (created_at);
