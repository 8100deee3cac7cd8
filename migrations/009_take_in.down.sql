DROP TABLE IF EXISTS dlq.dlq_idempotency_keys, dlq.dlq_ingest_offsets;
