CREATE OR REPLACE TRIGGER trg_dlq_messages_updated_at
    BEFORE UPDATE ON dlq.dlq_messages
    FOR EACH ROW
    EXECUTE FUNCTION dlq.update_updated_at();

ALTER TABLE dlq.dlq_messages RESET (fillfactor, toast_tuple_target, autovacuum_analyze_scale_factor);
ALTER TABLE dlq.dlq_messages_archive DROP COLUMN IF EXISTS ballast;
ALTER TABLE dlq.dlq_messages DROP COLUMN IF EXISTS ballast;
