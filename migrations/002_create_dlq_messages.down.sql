DROP TABLE IF EXISTS dlq.dlq_messages; -- its trigger and indexes go with it
