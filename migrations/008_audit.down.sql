DROP FUNCTION IF EXISTS dlq.purge_audit(TIMESTAMPTZ, INT);
DROP TABLE IF EXISTS dlq.dlq_archive_runs, dlq.dlq_audit_runs, dlq.dlq_audit;
DROP FUNCTION IF EXISTS dlq.protect_audit_runs(), dlq.protect_audit();
