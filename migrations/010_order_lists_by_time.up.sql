-- dlq-db: lists follow created_at, so that one of a span of time is as cheap as any
--
-- The indexes of lists lead from topic and status to the time. Bulk retries go by
-- the order of arrival, of PENDING messages only, which get indexes of their own.
-- Two more entries are written where a message becomes PENDING, when it is stored or
-- its retry fails; a retry that succeeds writes none of them.

DROP INDEX IF EXISTS dlq.idx_dlq_messages_original_topic;
CREATE INDEX idx_dlq_messages_original_topic ON dlq.dlq_messages (original_topic, status, created_at, seq);
DROP INDEX IF EXISTS dlq.idx_dlq_messages_dlq_topic;
CREATE INDEX idx_dlq_messages_dlq_topic ON dlq.dlq_messages (dlq_topic, status, created_at, seq);

CREATE INDEX IF NOT EXISTS idx_dlq_messages_original_topic_pending ON dlq.dlq_messages (original_topic, seq) WHERE status = 'PENDING';
CREATE INDEX IF NOT EXISTS idx_dlq_messages_dlq_topic_pending ON dlq.dlq_messages (dlq_topic, seq) WHERE status = 'PENDING';
