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

-- For statements that changed dlq_messages without setting updated_at, and for statements that ended the retry of a message
-- without resetting in_page, which other programs do not know. Such statements write their rows twice. The second statement
-- is planned anew each time, since a plan for a single row would take hours for a million rows.
CREATE OR REPLACE FUNCTION dlq.update_updated_at() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM updated WHERE updated_at <> now() OR in_page AND status <> 'RETRYING') THEN
        EXECUTE 'UPDATE dlq.dlq_messages m
            SET updated_at = CASE WHEN n.updated_at = o.updated_at THEN now() ELSE m.updated_at END, in_page = m.in_page AND m.status = ''RETRYING''
            FROM updated n
            JOIN outdated o ON o.id = n.id
            WHERE m.id = n.id AND (n.updated_at = o.updated_at AND m.updated_at <> now() OR m.in_page AND m.status <> ''RETRYING'')';
    END IF;
    RETURN NULL;
END;
$$;
REVOKE EXECUTE ON FUNCTION dlq.update_updated_at() FROM PUBLIC;

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
