DROP TABLE IF EXISTS dlq.dlq_watermark_lease, dlq.dlq_watermark_groups, dlq.dlq_watermarks, dlq.dlq_targets;
DROP VIEW IF EXISTS dlq.dlq_retrying, dlq.dlq_job_lanes_now;
DROP TABLE IF EXISTS dlq.dlq_job_blocked_keys, dlq.dlq_job_waiting, dlq.dlq_job_queues,
    dlq.dlq_job_lanes, dlq.dlq_job_samples, dlq.dlq_jobs, dlq.dlq_plans;
DROP FUNCTION IF EXISTS dlq.abandon_page(), dlq.abandon_pages();
DROP TRIGGER IF EXISTS trg_dlq_messages_delivered ON dlq.dlq_messages;
DROP FUNCTION IF EXISTS dlq.keep_delivery(), dlq.was_delivered(UUID);
DROP TABLE IF EXISTS dlq.dlq_exhausted_outbox, dlq.dlq_edits, dlq.dlq_retry_attempts;
