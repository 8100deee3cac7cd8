DROP TABLE IF EXISTS dlq.dlq_archive_runs;
