DROP FUNCTION IF EXISTS dlq.update_updated_at();
DROP SCHEMA IF EXISTS dlq CASCADE;

-- The extension is dropped if the up migration created it. It is kept if other objects of the
-- database depend on it. CASCADE would drop these objects.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_extension
               WHERE extname = 'pgcrypto'
                 AND obj_description(oid, 'pg_extension') LIKE '%(created by dlq 001_create_schema)') THEN
        DROP EXTENSION IF EXISTS "pgcrypto";
    END IF;
EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege THEN
    RAISE NOTICE 'extension pgcrypto is kept: %', SQLERRM;
END;
$$;
