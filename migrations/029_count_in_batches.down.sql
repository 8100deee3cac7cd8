-- Lock all tables at once. Locked one after the other, they would deadlock with the
-- statements of running workers. Between two tries, other sessions continue.
DO $$
BEGIN
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '900ms', true); -- below deadlock_timeout
            LOCK TABLE dlq.dlq_messages, dlq.dlq_count_changes IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            PERFORM pg_sleep(0.3);
        END;
    END LOOP;
    PERFORM set_config('lock_timeout', '0', true);
    -- Changes that a worker is adding to the sums would be counted twice.
    IF to_regclass('dlq.dlq_count_batches') IS NOT NULL THEN
        LOCK TABLE dlq.dlq_count_batches IN ACCESS EXCLUSIVE MODE;
    END IF;
END;
$$;

CREATE OR REPLACE FUNCTION dlq.count_inserted_messages() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO dlq.dlq_count_changes (dlq_topic, original_topic, group_id, status, messages, arrived, arrived_at)
    SELECT dlq_topic, original_topic, group_id, status, count(*), count(*), max(created_at)
    FROM inserted
    GROUP BY dlq_topic, original_topic, group_id, status;
    RETURN NULL;
END;
$$;

CREATE OR REPLACE FUNCTION dlq.count_updated_messages() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO dlq.dlq_count_changes (dlq_topic, original_topic, group_id, status, messages, arrived)
    SELECT dlq_topic, original_topic, group_id, status, sum(messages), 0
    FROM (SELECT dlq_topic, original_topic, group_id, status, 1 AS messages FROM updated
          UNION ALL
          SELECT dlq_topic, original_topic, group_id, status, -1 FROM outdated) AS change
    GROUP BY dlq_topic, original_topic, group_id, status
    HAVING sum(messages) <> 0;
    RETURN NULL;
END;
$$;

CREATE OR REPLACE FUNCTION dlq.count_deleted_messages() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO dlq.dlq_count_changes (dlq_topic, original_topic, group_id, status, messages, arrived)
    SELECT dlq_topic, original_topic, group_id, status, -count(*), 0
    FROM deleted
    GROUP BY dlq_topic, original_topic, group_id, status;
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
    LOCK TABLE dlq.dlq_count_changes, dlq.dlq_topic_count_sums, dlq.dlq_group_count_sums, dlq.dlq_group_arrivals IN SHARE ROW EXCLUSIVE MODE;
    INSERT INTO dlq.dlq_group_arrivals AS a (group_id, arrived, last_seen, hour, hour_count, previous_count)
    SELECT group_id, sum(arrived), max(arrived_at), date_bin('1 hour', max(arrived_at), 'epoch'), sum(arrived), 0
    FROM dlq.dlq_count_changes
    WHERE group_id IS NOT NULL AND arrived > 0
    GROUP BY group_id
    ON CONFLICT (group_id) DO UPDATE SET arrived = a.arrived + EXCLUDED.arrived, last_seen = greatest(a.last_seen, EXCLUDED.last_seen);
    DELETE FROM dlq.dlq_count_changes;
    DELETE FROM dlq.dlq_topic_count_sums;
    DELETE FROM dlq.dlq_group_count_sums;
    INSERT INTO dlq.dlq_topic_count_sums (dlq_topic, original_topic, status, messages)
    SELECT dlq_topic, original_topic, status, count(*)
    FROM dlq.dlq_messages
    GROUP BY dlq_topic, original_topic, status;
    INSERT INTO dlq.dlq_group_count_sums (group_id, dlq_topic, original_topic, status, messages)
    SELECT group_id, dlq_topic, original_topic, status, count(*)
    FROM dlq.dlq_messages
    WHERE group_id IS NOT NULL
    GROUP BY group_id, dlq_topic, original_topic, status;
    INSERT INTO dlq.dlq_group_arrivals (group_id, arrived, last_seen, hour, hour_count, previous_count)
    SELECT group_id, count(*), max(created_at), date_bin('1 hour', max(created_at), 'epoch'), 0, 0
    FROM dlq.dlq_messages
    WHERE group_id IS NOT NULL
    GROUP BY group_id
    ON CONFLICT (group_id) DO NOTHING;
END;
$$;

CREATE OR REPLACE FUNCTION dlq.count_no_messages() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    LOCK TABLE dlq.dlq_count_changes IN ACCESS EXCLUSIVE MODE;
    INSERT INTO dlq.dlq_group_arrivals AS a (group_id, arrived, last_seen, hour, hour_count, previous_count)
    SELECT group_id, sum(arrived), max(arrived_at), date_bin('1 hour', max(arrived_at), 'epoch'), sum(arrived), 0
    FROM dlq.dlq_count_changes
    WHERE group_id IS NOT NULL AND arrived > 0
    GROUP BY group_id
    ON CONFLICT (group_id) DO UPDATE SET arrived = a.arrived + EXCLUDED.arrived, last_seen = greatest(a.last_seen, EXCLUDED.last_seen);
    -- A DELETE would leave what the transaction cannot see.
    TRUNCATE dlq.dlq_count_changes, dlq.dlq_topic_count_sums, dlq.dlq_group_count_sums;
    RETURN NULL;
END;
$$;

CREATE OR REPLACE VIEW dlq.dlq_topic_counts AS
SELECT dlq_topic, original_topic, status, sum(messages)::bigint AS messages
FROM (SELECT dlq_topic, original_topic, status, messages FROM dlq.dlq_topic_count_sums
      UNION ALL
      SELECT dlq_topic, original_topic, status, messages FROM dlq.dlq_count_changes) AS part
GROUP BY dlq_topic, original_topic, status
HAVING sum(messages) <> 0;

DO $$
BEGIN
    IF to_regclass('dlq.dlq_uncounted') IS NOT NULL THEN
        INSERT INTO dlq.dlq_count_changes (dlq_topic, original_topic, group_id, status, messages, arrived, arrived_at)
        SELECT dlq_topic, original_topic, group_id, status, messages, arrived, arrived_at
        FROM dlq.dlq_uncounted;
    END IF;
END;
$$;

DROP VIEW IF EXISTS dlq.dlq_uncounted;
DROP TABLE IF EXISTS dlq.dlq_count_batches;
ALTER INDEX dlq.dlq_messages_pkey RESET (fillfactor);
