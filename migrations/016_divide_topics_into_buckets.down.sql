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

-- A bulk retry with lanes of buckets cannot continue. Its claimed messages are released,
-- and an operator starts it again.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM information_schema.columns
                   WHERE table_schema = 'dlq' AND table_name = 'dlq_bulk_retries' AND column_name = 'modulo_lanes') THEN
        RETURN;
    END IF;

    UPDATE dlq.dlq_messages m
    SET status = 'PENDING', retry_count = greatest(m.retry_count - 1, 0), workflow_id = '', owner_token = '', updated_at = now()
    FROM dlq.dlq_bulk_retries b
    WHERE b.ended_at IS NULL AND NOT b.modulo_lanes AND m.status = 'RETRYING' AND m.owner_token = b.id::text;

    UPDATE dlq.dlq_bulk_retries b
    SET state = 'FAILED', reason = 'ended by a downgrade; start it again', ended_at = now(), updated_at = now(), counted = true,
        matched = greatest(b.matched, l.done), skipped = greatest(b.matched - l.done, 0)
    FROM (SELECT b.id, COALESCE(sum(n.retried + n.failed + n.dead + n.skipped), 0)::bigint AS done
          FROM dlq.dlq_bulk_retries b
          LEFT JOIN dlq.dlq_bulk_retry_lanes_now n ON n.bulk_id = b.id
          GROUP BY b.id) AS l
    WHERE l.id = b.id AND b.ended_at IS NULL AND NOT b.modulo_lanes;
END;
$$;
DROP VIEW IF EXISTS dlq.dlq_bulk_retry_lanes_now;
DO $$
BEGIN
    IF EXISTS (SELECT FROM information_schema.columns
               WHERE table_schema = 'dlq' AND table_name = 'dlq_bulk_retry_lanes' AND column_name = 'pages') THEN
        -- A second row of a lane may have been inserted by hand.
        DELETE FROM dlq.dlq_bulk_retry_lanes l
        USING dlq.dlq_bulk_retry_lanes newer
        WHERE newer.bulk_id = l.bulk_id AND newer.lane = l.lane AND newer.pages > l.pages;
    END IF;
    UPDATE dlq.dlq_bulk_retry_lanes l
    SET waiting = 0
    FROM dlq.dlq_bulk_retries b
    WHERE b.id = l.bulk_id AND b.ended_at IS NOT NULL AND l.waiting <> 0;
END;
$$;
ALTER TABLE dlq.dlq_bulk_retry_lanes
    DROP CONSTRAINT IF EXISTS dlq_bulk_retry_lanes_pkey,
    ADD PRIMARY KEY (bulk_id, lane);
ALTER TABLE dlq.dlq_bulk_retry_lanes DROP COLUMN IF EXISTS pages;

ALTER TABLE dlq.dlq_bulk_retries DROP COLUMN IF EXISTS modulo_lanes;

DROP INDEX IF EXISTS dlq.idx_dlq_messages_dlq_topic_pending;
CREATE INDEX idx_dlq_messages_dlq_topic_pending ON dlq.dlq_messages (dlq_topic, seq) WHERE status = 'PENDING';
DROP INDEX IF EXISTS dlq.idx_dlq_messages_original_topic_pending;
CREATE INDEX idx_dlq_messages_original_topic_pending ON dlq.dlq_messages (original_topic, seq) WHERE status = 'PENDING';

DO $$
DECLARE
    renamed RECORD;
BEGIN
    FOR renamed IN
        SELECT * FROM (VALUES ('bound', 'upper_bound'), ('frozen_at', 'snapshot_at'), ('mixed', 'multi_target')) AS names (before, after)
        JOIN information_schema.columns c
            ON c.table_schema = 'dlq' AND c.table_name = 'dlq_bulk_retries' AND c.column_name = names.after
    LOOP
        EXECUTE format('ALTER TABLE dlq.dlq_bulk_retries RENAME COLUMN %I TO %I', renamed.after, renamed.before);
    END LOOP;
END;
$$;
