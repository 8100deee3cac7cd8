ALTER TABLE dlq.dlq_message_bodies
    DROP COLUMN IF EXISTS schema_id,
    DROP COLUMN IF EXISTS schema_format,
    DROP COLUMN IF EXISTS schema_subject,
    DROP COLUMN IF EXISTS schema_version,
    DROP COLUMN IF EXISTS schema_message_type,
    DROP COLUMN IF EXISTS decode_error;
