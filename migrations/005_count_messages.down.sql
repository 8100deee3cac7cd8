DROP TRIGGER IF EXISTS trg_dlq_messages_inserted ON dlq.dlq_messages;
DROP TRIGGER IF EXISTS trg_dlq_messages_updated ON dlq.dlq_messages;
DROP TRIGGER IF EXISTS trg_dlq_messages_deleted ON dlq.dlq_messages;
DROP TRIGGER IF EXISTS trg_dlq_messages_truncated ON dlq.dlq_messages;
DROP FUNCTION IF EXISTS dlq.recount_messages(), dlq.count_no_messages(), dlq.count_deleted_messages(), dlq.count_updated_messages(),
    dlq.count_inserted_messages();
DROP VIEW IF EXISTS dlq.dlq_topic_counts, dlq.dlq_uncounted;
DROP TABLE IF EXISTS dlq.dlq_count_batches, dlq.dlq_group_arrivals, dlq.dlq_group_count_sums, dlq.dlq_topic_count_sums;
