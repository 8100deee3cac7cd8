DROP TABLE IF EXISTS dlq.dlq_retry_attempts;
