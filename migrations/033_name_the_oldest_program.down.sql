DROP TABLE IF EXISTS dlq.dlq_schema;
