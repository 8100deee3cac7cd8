DROP INDEX IF EXISTS dlq.idx_dlq_messages_created_at;
CREATE INDEX idx_dlq_messages_created_at ON dlq.dlq_messages (created_at);
DROP INDEX IF EXISTS dlq.idx_dlq_messages_status;
CREATE INDEX idx_dlq_messages_status ON dlq.dlq_messages (status, updated_at);
