-- dlq-db: the schema that a value was written with

-- Between two tries, other sessions continue. They would wait behind an ALTER TABLE that waits.
DO $$
BEGIN
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '900ms', true); -- below deadlock_timeout
            LOCK TABLE dlq.dlq_message_bodies IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            PERFORM pg_sleep(0.3);
        END;
    END LOOP;
    PERFORM set_config('lock_timeout', '0', true);
END;
$$;

-- Null for values that name no schema of a Schema Registry. The columns take no space then.
ALTER TABLE dlq.dlq_message_bodies
    ADD COLUMN IF NOT EXISTS schema_id           BIGINT, -- as the value has it
    ADD COLUMN IF NOT EXISTS schema_format       TEXT,   -- AVRO, PROTOBUF or JSON
    ADD COLUMN IF NOT EXISTS schema_subject      TEXT,   -- one subject that has the schema,
    ADD COLUMN IF NOT EXISTS schema_version      INT,    -- and its version there
    ADD COLUMN IF NOT EXISTS schema_message_type TEXT,   -- full name of the Protobuf message or the Avro record
    ADD COLUMN IF NOT EXISTS decode_error        TEXT;   -- why the payload does not have the value
