-- dlq-db: a lane of a bulk retry reads its own messages only, and its own row as it is now

-- Lock all tables at once. Locked one after the other, they would deadlock with the
-- statements of running workers. Between two tries, other sessions continue.
DO $$
BEGIN
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '900ms', true); -- below deadlock_timeout
            LOCK TABLE dlq.dlq_messages, dlq.dlq_bulk_retries, dlq.dlq_bulk_retry_lanes IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            PERFORM pg_sleep(0.3);
        END;
    END LOOP;
    PERFORM set_config('lock_timeout', '0', true);
END;
$$;

-- The words of the documentation. Earlier workers cannot claim without these columns, but
-- they still finalize the pages that they have claimed, which is why allowance keeps its
-- name.
DO $$
DECLARE
    renamed RECORD;
BEGIN
    FOR renamed IN
        SELECT * FROM (VALUES ('bound', 'upper_bound'), ('frozen_at', 'snapshot_at'), ('mixed', 'multi_target')) AS names (before, after)
        JOIN information_schema.columns c
            ON c.table_schema = 'dlq' AND c.table_name = 'dlq_bulk_retries' AND c.column_name = names.before
    LOOP
        EXECUTE format('ALTER TABLE dlq.dlq_bulk_retries RENAME COLUMN %I TO %I', renamed.before, renamed.after);
    END LOOP;
END;
$$;

-- Each message is in one of 1,024 buckets, key_hash & 1023, and each lane has a range of
-- buckets. The bucket stands last in these indexes: a lane skips the entries of other
-- lanes without a look at their rows, and still reads its own in the order of arrival.
DROP INDEX IF EXISTS dlq.idx_dlq_messages_original_topic_pending;
CREATE INDEX idx_dlq_messages_original_topic_pending ON dlq.dlq_messages (original_topic, seq, (key_hash & 1023)) WHERE status = 'PENDING';
DROP INDEX IF EXISTS dlq.idx_dlq_messages_dlq_topic_pending;
CREATE INDEX idx_dlq_messages_dlq_topic_pending ON dlq.dlq_messages (dlq_topic, seq, (key_hash & 1023)) WHERE status = 'PENDING';

-- Running bulk retries keep the lanes that they have, those of key_hash % lanes. Earlier
-- workers would use these for new jobs too.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM information_schema.columns
                   WHERE table_schema = 'dlq' AND table_name = 'dlq_bulk_retries' AND column_name = 'modulo_lanes') THEN
        ALTER TABLE dlq.dlq_bulk_retries ADD COLUMN modulo_lanes BOOLEAN NOT NULL DEFAULT true;
        ALTER TABLE dlq.dlq_bulk_retries ALTER COLUMN modulo_lanes SET DEFAULT false;
    END IF;
END;
$$;

-- A lane's row is updated twice for each page. While a long transaction is open, such as a
-- pg_dump, PostgreSQL keeps every version of the row, and a lookup by lane reads them all.
-- So each claim counts its page, and a lookup starts at the highest count. It reads the
-- present version and one or two before it.
ALTER TABLE dlq.dlq_bulk_retry_lanes ADD COLUMN IF NOT EXISTS pages BIGINT NOT NULL DEFAULT 0; -- that it has claimed
ALTER TABLE dlq.dlq_bulk_retry_lanes
    DROP CONSTRAINT IF EXISTS dlq_bulk_retry_lanes_pkey,
    ADD PRIMARY KEY (bulk_id, lane, pages);

CREATE OR REPLACE VIEW dlq.dlq_bulk_retry_lanes_now AS
SELECT b.id AS bulk_id, n.lane, l.pages, l.page, l.cursor, l.waiting, l.retried, l.failed, l.dead, l.skipped,
    l.window_started_at, l.window_count, l.previous_count, l.updated_at
FROM dlq.dlq_bulk_retries b
CROSS JOIN LATERAL generate_series(0, least(greatest(b.lanes, 0), 1024) - 1) AS n (lane) -- a row edited by hand may have any number
CROSS JOIN LATERAL (
    SELECT *
    FROM dlq.dlq_bulk_retry_lanes
    WHERE bulk_id = b.id AND lane = n.lane
    ORDER BY pages DESC
    LIMIT 1
) AS l;
