DROP TABLE IF EXISTS dlq.dlq_bulk_retry_lanes;
DROP TABLE IF EXISTS dlq.dlq_bulk_retries;
