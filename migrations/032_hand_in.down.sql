DROP TABLE IF EXISTS dlq.dlq_idempotency_keys;
