-- dlq-db: a retry writes less WAL

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
END;
$$;

-- dlq_count_batches: what has to be added to the sums of topics and groups. Each statement
-- appends one row for each pair of topics and status, with arrays that have an element for each
-- group. It replaces dlq_count_changes, which had a row for each group, and which stays for
-- workers of earlier versions: they find nothing to add.
CREATE TABLE IF NOT EXISTS dlq.dlq_count_batches (
    dlq_topic      VARCHAR(255)  NOT NULL,
    original_topic VARCHAR(255)  NOT NULL,
    status         VARCHAR(50)   NOT NULL,
    group_ids      UUID[]        NOT NULL, -- null for messages that are in no group
    messages       BIGINT[]      NOT NULL, -- negative where there are fewer
    arrived_at     TIMESTAMPTZ[]           -- the newest of those that are new; null if none are
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- dlq_uncounted: the same with a row for each group.
CREATE OR REPLACE VIEW dlq.dlq_uncounted AS
SELECT b.dlq_topic, b.original_topic, c.group_id, b.status, c.messages,
    CASE WHEN c.arrived_at IS NULL THEN 0 ELSE c.messages END AS arrived, c.arrived_at
FROM dlq.dlq_count_batches b
CROSS JOIN LATERAL unnest(b.group_ids, b.messages, b.arrived_at) AS c (group_id, messages, arrived_at);

WITH moved AS (
    DELETE FROM dlq.dlq_count_changes RETURNING *
)
INSERT INTO dlq.dlq_count_batches (dlq_topic, original_topic, status, group_ids, messages, arrived_at)
SELECT dlq_topic, original_topic, status, array_agg(group_id), array_agg(messages), array_agg(arrived_at)
FROM moved
GROUP BY dlq_topic, original_topic, status;

CREATE OR REPLACE VIEW dlq.dlq_topic_counts AS
SELECT dlq_topic, original_topic, status, sum(messages)::bigint AS messages
FROM (SELECT dlq_topic, original_topic, status, messages FROM dlq.dlq_topic_count_sums
      UNION ALL
      SELECT dlq_topic, original_topic, status, messages FROM dlq.dlq_uncounted) AS part
GROUP BY dlq_topic, original_topic, status
HAVING sum(messages) <> 0;

CREATE OR REPLACE FUNCTION dlq.count_inserted_messages() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO dlq.dlq_count_batches (dlq_topic, original_topic, status, group_ids, messages, arrived_at)
    SELECT dlq_topic, original_topic, status, array_agg(group_id), array_agg(messages), array_agg(arrived_at)
    FROM (SELECT dlq_topic, original_topic, status, group_id, count(*) AS messages, max(created_at) AS arrived_at
          FROM inserted
          GROUP BY dlq_topic, original_topic, status, group_id) AS change
    GROUP BY dlq_topic, original_topic, status;
    RETURN NULL;
END;
$$;

CREATE OR REPLACE FUNCTION dlq.count_updated_messages() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO dlq.dlq_count_batches (dlq_topic, original_topic, status, group_ids, messages)
    SELECT dlq_topic, original_topic, status, array_agg(group_id), array_agg(messages)
    FROM (SELECT dlq_topic, original_topic, status, group_id, sum(messages) AS messages
          FROM (SELECT dlq_topic, original_topic, status, group_id, 1 AS messages FROM updated
                UNION ALL
                SELECT dlq_topic, original_topic, status, group_id, -1 FROM outdated) AS row_change
          GROUP BY dlq_topic, original_topic, status, group_id
          HAVING sum(messages) <> 0) AS change
    GROUP BY dlq_topic, original_topic, status;
    RETURN NULL;
END;
$$;

CREATE OR REPLACE FUNCTION dlq.count_deleted_messages() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO dlq.dlq_count_batches (dlq_topic, original_topic, status, group_ids, messages)
    SELECT dlq_topic, original_topic, status, array_agg(group_id), array_agg(messages)
    FROM (SELECT dlq_topic, original_topic, status, group_id, -count(*) AS messages
          FROM deleted
          GROUP BY dlq_topic, original_topic, status, group_id) AS change
    GROUP BY dlq_topic, original_topic, status;
    RETURN NULL;
END;
$$;

-- These two are as before, with the other table.
CREATE OR REPLACE FUNCTION dlq.recount_messages() RETURNS VOID
LANGUAGE plpgsql
AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'messages can only be counted anew in a transaction that is READ COMMITTED'
            USING HINT = 'Others may have changed messages since the transaction began, which it cannot see.';
    END IF;
    LOCK TABLE dlq.dlq_messages IN SHARE ROW EXCLUSIVE MODE;
    LOCK TABLE dlq.dlq_count_batches, dlq.dlq_topic_count_sums, dlq.dlq_group_count_sums, dlq.dlq_group_arrivals IN SHARE ROW EXCLUSIVE MODE;
    INSERT INTO dlq.dlq_group_arrivals AS a (group_id, arrived, last_seen, hour, hour_count, previous_count)
    SELECT group_id, sum(arrived), max(arrived_at), date_bin('1 hour', max(arrived_at), 'epoch'), sum(arrived), 0
    FROM dlq.dlq_uncounted
    WHERE group_id IS NOT NULL AND arrived > 0
    GROUP BY group_id
    ON CONFLICT (group_id) DO UPDATE SET arrived = a.arrived + EXCLUDED.arrived, last_seen = greatest(a.last_seen, EXCLUDED.last_seen);
    DELETE FROM dlq.dlq_count_batches;
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
    LOCK TABLE dlq.dlq_count_batches IN ACCESS EXCLUSIVE MODE;
    INSERT INTO dlq.dlq_group_arrivals AS a (group_id, arrived, last_seen, hour, hour_count, previous_count)
    SELECT group_id, sum(arrived), max(arrived_at), date_bin('1 hour', max(arrived_at), 'epoch'), sum(arrived), 0
    FROM dlq.dlq_uncounted
    WHERE group_id IS NOT NULL AND arrived > 0
    GROUP BY group_id
    ON CONFLICT (group_id) DO UPDATE SET arrived = a.arrived + EXCLUDED.arrived, last_seen = greatest(a.last_seen, EXCLUDED.last_seen);
    -- A DELETE would leave what the transaction cannot see.
    TRUNCATE dlq.dlq_count_batches, dlq.dlq_topic_count_sums, dlq.dlq_group_count_sums;
    RETURN NULL;
END;
$$;

-- A retry adds two entries for the versions of a row beside the first one. Now the pages of the
-- index have space for them, and are not split. This holds for pages that are written from now on.
ALTER INDEX dlq.dlq_messages_pkey SET (fillfactor = 50);
