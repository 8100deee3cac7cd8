ALTER TABLE dlq.dlq_messages DROP COLUMN IF EXISTS size;
ALTER TABLE dlq.dlq_messages_archive DROP COLUMN IF EXISTS size;
ALTER TABLE dlq.dlq_message_bodies DROP CONSTRAINT IF EXISTS uq_dlq_message_bodies_source;
ALTER TABLE dlq.dlq_message_bodies ADD CONSTRAINT uq_dlq_message_bodies_source UNIQUE (topic_id, partition, record_offset);
DROP TABLE IF EXISTS dlq.dlq_ingest_offsets;
