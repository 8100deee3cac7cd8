DROP INDEX IF EXISTS dlq.idx_dlq_messages_dlq_topic_pending;
DROP INDEX IF EXISTS dlq.idx_dlq_messages_original_topic_pending;

DROP INDEX IF EXISTS dlq.idx_dlq_messages_dlq_topic;
CREATE INDEX idx_dlq_messages_dlq_topic ON dlq.dlq_messages (dlq_topic, status, seq);
DROP INDEX IF EXISTS dlq.idx_dlq_messages_original_topic;
CREATE INDEX idx_dlq_messages_original_topic ON dlq.dlq_messages (original_topic, status, seq);
