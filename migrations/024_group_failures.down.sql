-- Lock all tables at once. Locked one after the other, they would deadlock with the
-- statements of running workers. Between two tries, other sessions continue.
DO $$
BEGIN
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '900ms', true); -- below deadlock_timeout
            LOCK TABLE dlq.dlq_messages, dlq.dlq_messages_archive, dlq.dlq_topic_count_changes IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            PERFORM pg_sleep(0.3);
        END;
    END LOOP;
    PERFORM set_config('lock_timeout', '0', true);
    -- Changes that a worker is adding to the sums would be counted twice.
    IF to_regclass('dlq.dlq_count_changes') IS NOT NULL THEN
        LOCK TABLE dlq.dlq_count_changes IN ACCESS EXCLUSIVE MODE;
    END IF;
END;
$$;

CREATE OR REPLACE FUNCTION dlq.count_inserted_messages() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO dlq.dlq_topic_count_changes (dlq_topic, original_topic, status, messages)
    SELECT dlq_topic, original_topic, status, count(*)
    FROM inserted
    GROUP BY dlq_topic, original_topic, status;
    RETURN NULL;
END;
$$;

CREATE OR REPLACE FUNCTION dlq.count_updated_messages() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO dlq.dlq_topic_count_changes (dlq_topic, original_topic, status, messages)
    SELECT dlq_topic, original_topic, status, sum(messages)
    FROM (SELECT dlq_topic, original_topic, status, 1 AS messages FROM updated
          UNION ALL
          SELECT dlq_topic, original_topic, status, -1 FROM outdated) AS change
    GROUP BY dlq_topic, original_topic, status
    HAVING sum(messages) <> 0;
    RETURN NULL;
END;
$$;

CREATE OR REPLACE FUNCTION dlq.count_deleted_messages() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO dlq.dlq_topic_count_changes (dlq_topic, original_topic, status, messages)
    SELECT dlq_topic, original_topic, status, -count(*)
    FROM deleted
    GROUP BY dlq_topic, original_topic, status;
    RETURN NULL;
END;
$$;

CREATE OR REPLACE FUNCTION dlq.recount_messages() RETURNS VOID
LANGUAGE plpgsql
AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'messages can only be counted anew in a transaction that is READ COMMITTED'
            USING HINT = 'Others may have changed messages since the transaction began, which it cannot see.';
    END IF;
    LOCK TABLE dlq.dlq_messages IN SHARE ROW EXCLUSIVE MODE;
    LOCK TABLE dlq.dlq_topic_count_changes, dlq.dlq_topic_count_sums IN SHARE ROW EXCLUSIVE MODE;
    DELETE FROM dlq.dlq_topic_count_changes;
    DELETE FROM dlq.dlq_topic_count_sums;
    INSERT INTO dlq.dlq_topic_count_sums (dlq_topic, original_topic, status, messages)
    SELECT dlq_topic, original_topic, status, count(*)
    FROM dlq.dlq_messages
    GROUP BY dlq_topic, original_topic, status;
END;
$$;

CREATE OR REPLACE FUNCTION dlq.count_no_messages() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    TRUNCATE dlq.dlq_topic_count_changes, dlq.dlq_topic_count_sums;
    RETURN NULL;
END;
$$;

CREATE OR REPLACE VIEW dlq.dlq_topic_counts AS
SELECT dlq_topic, original_topic, status, sum(messages)::bigint AS messages
FROM (SELECT dlq_topic, original_topic, status, messages FROM dlq.dlq_topic_count_sums
      UNION ALL
      SELECT dlq_topic, original_topic, status, messages FROM dlq.dlq_topic_count_changes) AS part
GROUP BY dlq_topic, original_topic, status
HAVING sum(messages) <> 0;

DO $$
BEGIN
    IF to_regclass('dlq.dlq_count_changes') IS NOT NULL THEN
        INSERT INTO dlq.dlq_topic_count_changes (dlq_topic, original_topic, status, messages)
        SELECT dlq_topic, original_topic, status, sum(messages)
        FROM dlq.dlq_count_changes
        GROUP BY dlq_topic, original_topic, status;
    END IF;
END;
$$;

DROP TABLE IF EXISTS dlq.dlq_count_changes;
DROP TABLE IF EXISTS dlq.dlq_group_arrivals;
DROP TABLE IF EXISTS dlq.dlq_group_count_sums;
DROP TABLE IF EXISTS dlq.dlq_group_fixes;
DROP TABLE IF EXISTS dlq.dlq_groups;
DROP INDEX IF EXISTS dlq.idx_dlq_messages_group;
ALTER TABLE dlq.dlq_messages DROP COLUMN IF EXISTS group_id;
ALTER TABLE dlq.dlq_messages_archive DROP COLUMN IF EXISTS group_id;
