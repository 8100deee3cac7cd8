DROP PROCEDURE IF EXISTS dlq.archive_old_dlq_messages(INT, INT);
DROP FUNCTION IF EXISTS dlq.archive_dlq_messages_batch(TIMESTAMPTZ, INT);
DROP TABLE IF EXISTS dlq.dlq_messages_archive;
