DROP TABLE IF EXISTS dlq.dlq_exhausted_outbox;
