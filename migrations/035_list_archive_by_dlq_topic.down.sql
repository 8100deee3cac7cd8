DROP INDEX CONCURRENTLY IF EXISTS dlq.idx_dlq_messages_archive_dlq_topic;
