DROP INDEX IF EXISTS dlq.idx_dlq_messages_archive_group, dlq.idx_dlq_messages_archive_topics;
