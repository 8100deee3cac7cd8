-- dlq-db: each dead-letter topic has watermarks of its own

-- A target belongs to the dead-letter topic of the messages that were delivered to it. Its watermarks
-- count once ingest has passed the dead-letter topics into which these messages can come back.
ALTER TABLE dlq.dlq_targets ADD COLUMN IF NOT EXISTS dlq_topic VARCHAR(255) NOT NULL DEFAULT '';
ALTER TABLE dlq.dlq_targets ADD COLUMN IF NOT EXISTS watermark_at TIMESTAMPTZ; -- when its offsets were fetched; null before
ALTER TABLE dlq.dlq_targets DROP CONSTRAINT IF EXISTS uq_dlq_targets;
ALTER TABLE dlq.dlq_targets ADD CONSTRAINT uq_dlq_targets UNIQUE NULLS NOT DISTINCT (topic, topic_id, dlq_topic);
ALTER TABLE dlq.dlq_targets SET (fillfactor = 50);
ALTER TABLE dlq.dlq_watermark_lease DROP COLUMN IF EXISTS watermark_at;

-- Since when a group is fetched without a gap.
ALTER TABLE dlq.dlq_watermark_groups ADD COLUMN IF NOT EXISTS since TIMESTAMPTZ NOT NULL DEFAULT NOW();

UPDATE dlq.dlq_schema SET oldest_program = 40;
