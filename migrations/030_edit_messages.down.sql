DROP TABLE IF EXISTS dlq.dlq_edits;
