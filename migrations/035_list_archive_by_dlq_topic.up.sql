-- dlq-db: archived messages of a topic, in the order of lists

CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_dlq_messages_archive_dlq_topic ON dlq.dlq_messages_archive (dlq_topic, status, created_at, seq);
