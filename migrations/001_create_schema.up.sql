-- dlq-db: schema, extension and common function

-- pgcrypto is documented, but nothing here needs it: gen_random_uuid() is part
-- of PostgreSQL. Some managed databases do not have it or do not allow it, and
-- that must not stop the installation. The comment marks an extension that was
-- made here, so that the down migration does not take away somebody else's.
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
