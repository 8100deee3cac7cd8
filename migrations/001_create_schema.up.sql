-- dlq-db: schema, extension and common function

-- The documented schema has the extension pgcrypto. Nothing needs it: gen_random_uuid() is part of
-- PostgreSQL. Some managed databases lack or refuse the extension, and the migration succeeds
-- without it. The comment on the extension says that this migration created it. The down migration
-- drops no other extension.
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

-- A statement that changes dlq_messages and does not set updated_at is followed by a second statement that does. The second
-- statement also sets in_page to false in messages that are no longer RETRYING, since other programs do not know in_page. The
-- trigger runs for the second statement too, and then keeps the times of messages that have just left their page. The second
-- statement is planned each time that it runs: with a plan for a single message, a change of a million messages would take hours.
CREATE OR REPLACE FUNCTION dlq.update_updated_at() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_hashjoin = on
AS $$
BEGIN
    IF EXISTS (SELECT FROM updated WHERE updated_at <> now() OR in_page AND status <> 'RETRYING') THEN
        EXECUTE $sql$
            UPDATE dlq.dlq_messages m
            SET updated_at = CASE WHEN c.is_old THEN now() ELSE m.updated_at END, in_page = m.in_page AND m.status = 'RETRYING'
            FROM (SELECT n.id, n.updated_at <> now() AND COALESCE(n.updated_at = o.updated_at
                    AND (n.in_page OR NOT o.in_page OR o.status = 'RETRYING'), true) AS is_old -- no old row: the id was changed
                FROM updated n
                LEFT JOIN outdated o ON o.id = n.id) AS c
            WHERE m.id = c.id AND (c.is_old OR m.in_page AND m.status <> 'RETRYING')
        $sql$;
    END IF;
    RETURN NULL;
END;
$$;
REVOKE EXECUTE ON FUNCTION dlq.update_updated_at() FROM PUBLIC;

-- dlq_schema: a single row. A program has the number of the newest migration that it knows. A migration
-- that removes parts of the schema sets oldest_program to the number of the first program that works
-- without these parts. Programs with lower numbers refuse the schema.
CREATE TABLE IF NOT EXISTS dlq.dlq_schema (
    only_row       BOOLEAN PRIMARY KEY DEFAULT true CHECK (only_row),
    oldest_program INT     NOT NULL
);

INSERT INTO dlq.dlq_schema (oldest_program) VALUES (1) ON CONFLICT DO NOTHING;

-- dlq_schema_files: the applied migrations, with the SHA-256 of each file. A program whose
-- migration files differ refuses the database.
CREATE TABLE IF NOT EXISTS dlq.dlq_schema_files (
    version INT  PRIMARY KEY,
    sha256  TEXT NOT NULL
);
