UPDATE dlq.dlq_schema SET oldest_program = 33;
ALTER TABLE dlq.dlq_watermark_groups DROP COLUMN IF EXISTS since;
ALTER TABLE dlq.dlq_watermark_lease ADD COLUMN IF NOT EXISTS watermark_at TIMESTAMPTZ;
ALTER TABLE dlq.dlq_targets RESET (fillfactor);

-- Of several targets with the same topic, one takes the messages of all.
WITH kept AS (
    SELECT id, min(id) OVER (PARTITION BY topic, topic_id) AS kept_id FROM dlq.dlq_targets
), messages AS (
    UPDATE dlq.dlq_messages m SET target_id = kept.kept_id FROM kept WHERE m.target_id = kept.id AND kept.id <> kept.kept_id
), archived AS (
    UPDATE dlq.dlq_messages_archive m SET target_id = kept.kept_id FROM kept WHERE m.target_id = kept.id AND kept.id <> kept.kept_id
), watermarks AS (
    DELETE FROM dlq.dlq_watermarks w USING kept WHERE w.target_id = kept.id AND kept.id <> kept.kept_id
)
DELETE FROM dlq.dlq_targets t USING kept WHERE t.id = kept.id AND kept.id <> kept.kept_id;

ALTER TABLE dlq.dlq_targets DROP CONSTRAINT IF EXISTS uq_dlq_targets;
ALTER TABLE dlq.dlq_targets ADD CONSTRAINT uq_dlq_targets UNIQUE NULLS NOT DISTINCT (topic, topic_id);
ALTER TABLE dlq.dlq_targets DROP COLUMN IF EXISTS dlq_topic, DROP COLUMN IF EXISTS watermark_at;
