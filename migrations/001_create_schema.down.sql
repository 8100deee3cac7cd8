DROP FUNCTION IF EXISTS dlq.update_updated_at();
DROP SCHEMA IF EXISTS dlq CASCADE;

-- The extension goes only when the up migration made it, and stays when other
-- objects of the database have come to need the extension: never CASCADE, which would
-- delete them.
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
