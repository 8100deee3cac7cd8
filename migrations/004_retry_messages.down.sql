DROP TABLE IF EXISTS dlq.dlq_watermark_lease, dlq.dlq_watermark_groups, dlq.dlq_watermarks, dlq.dlq_targets;
DROP TABLE IF EXISTS dlq.dlq_bulk_actions;
DROP VIEW IF EXISTS dlq.dlq_retrying, dlq.dlq_bulk_retry_lanes_now;
DROP TABLE IF EXISTS dlq.dlq_bulk_retry_blocked_keys, dlq.dlq_bulk_retry_waiting, dlq.dlq_bulk_retry_queues,
    dlq.dlq_bulk_retry_lanes, dlq.dlq_bulk_retries;
DROP TRIGGER IF EXISTS trg_dlq_messages_left_page ON dlq.dlq_messages;
DROP FUNCTION IF EXISTS dlq.leave_page(), dlq.abandon_page(), dlq.abandon_pages();
DROP TRIGGER IF EXISTS trg_dlq_messages_delivered ON dlq.dlq_messages;
DROP FUNCTION IF EXISTS dlq.keep_delivery();
DROP TABLE IF EXISTS dlq.dlq_exhausted_outbox, dlq.dlq_edits, dlq.dlq_retry_attempts;
