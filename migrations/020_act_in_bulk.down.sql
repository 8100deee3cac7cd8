DROP TABLE IF EXISTS dlq.dlq_bulk_actions;
