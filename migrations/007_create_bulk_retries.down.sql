DROP INDEX IF EXISTS dlq.idx_dlq_retry_attempts_run;
DROP TABLE IF EXISTS dlq.dlq_bulk_retry_lanes;
DROP TABLE IF EXISTS dlq.dlq_bulk_retries;
