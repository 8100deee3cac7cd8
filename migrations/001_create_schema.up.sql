-- dlq-db: schema, extension and common function

-- pgcrypto is documented, but nothing here needs pgcrypto: gen_random_uuid() is part of
-- PostgreSQL. Some managed databases lack or refuse the extension, which must not stop the
-- installation. The comment marks an extension that was made here, so that the down migration
-- does not drop an extension of somebody else.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'pgcrypto') THEN
        CREATE EXTENSION IF NOT EXISTS "pgcrypto";
        COMMENT ON EXTENSION "pgcrypto" IS 'cryptographic functions (created by dlq 001_create_schema)';
    END IF;
EXCEPTION WHEN undefined_file OR feature_not_supported OR insufficient_privilege OR invalid_parameter_value THEN
    RAISE WARNING 'extension pgcrypto is not available, going on without it: %', SQLERRM;
END;
$$;

CREATE SCHEMA IF NOT EXISTS dlq;

CREATE OR REPLACE FUNCTION dlq.update_updated_at()
RETURNS TRIGGER AS $$
BEGIN
    NEW.updated_at = NOW();
    RETURN NEW;
END;
$$ LANGUAGE plpgsql;

-- dlq_schema: a single row. The number of a program is the newest migration that it knows. A migration
-- that takes away parts of the schema raises oldest_program to the first program that works without
-- these parts. Earlier programs refuse the schema.
CREATE TABLE IF NOT EXISTS dlq.dlq_schema (
    only_row       BOOLEAN PRIMARY KEY DEFAULT true CHECK (only_row),
    oldest_program INT     NOT NULL
);

INSERT INTO dlq.dlq_schema (oldest_program) VALUES (1) ON CONFLICT DO NOTHING;

-- dlq_schema_files: the migrations that were applied, and the SHA-256 of each. A program whose
-- files differ refuses the database.
CREATE TABLE IF NOT EXISTS dlq.dlq_schema_files (
    version INT  PRIMARY KEY,
    sha256  TEXT NOT NULL
);
