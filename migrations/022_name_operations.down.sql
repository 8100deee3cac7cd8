DROP TABLE IF EXISTS dlq.dlq_audit_runs;
DROP FUNCTION IF EXISTS dlq.protect_audit_runs();
