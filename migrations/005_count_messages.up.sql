-- dlq-db: the numbers of messages of each topic and group

-- dlq_topic_count_sums, dlq_group_count_sums: how many messages have each status, without the
-- changes in dlq_count_batches.
CREATE TABLE IF NOT EXISTS dlq.dlq_topic_count_sums (
    dlq_topic      VARCHAR(255) NOT NULL,
    original_topic VARCHAR(255) NOT NULL,
    status         VARCHAR(50)  NOT NULL,
    messages       BIGINT       NOT NULL,

    PRIMARY KEY (dlq_topic, original_topic, status)
);
CREATE TABLE IF NOT EXISTS dlq.dlq_group_count_sums (
    group_id       UUID         NOT NULL,
    dlq_topic      VARCHAR(255) NOT NULL,
    original_topic VARCHAR(255) NOT NULL,
    status         VARCHAR(50)  NOT NULL,
    messages       BIGINT       NOT NULL,

    PRIMARY KEY (group_id, dlq_topic, original_topic, status)
);

-- dlq_group_arrivals: how many messages of each group were ever stored, and when the newest message was
-- stored, without the changes in dlq_count_batches. Deleted and archived messages stay counted.
CREATE TABLE IF NOT EXISTS dlq.dlq_group_arrivals (
    group_id  UUID        PRIMARY KEY,
    arrived   BIGINT      NOT NULL,
    last_seen TIMESTAMPTZ NOT NULL
);

-- dlq_arrivals: how many messages were stored in each minute of the last day, and in each hour of the
-- last 31 days, without the changes in dlq_count_batches. A group has rows of its own. The rows whose
-- group_id has only zeros count all messages of their topics.
CREATE TABLE IF NOT EXISTS dlq.dlq_arrivals (
    group_id       UUID         NOT NULL,
    step           VARCHAR(50)  NOT NULL, -- minute or hour
    at             TIMESTAMPTZ  NOT NULL, -- beginning of the minute or hour
    dlq_topic      VARCHAR(255) NOT NULL,
    original_topic VARCHAR(255) NOT NULL,
    arrived        BIGINT       NOT NULL,

    PRIMARY KEY (group_id, step, at, dlq_topic, original_topic)
) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS idx_dlq_arrivals_at ON dlq.dlq_arrivals (step, at);
CREATE INDEX IF NOT EXISTS idx_dlq_arrivals_dlq_topic ON dlq.dlq_arrivals (dlq_topic, step, at)
    WHERE group_id = '00000000-0000-0000-0000-000000000000';
CREATE INDEX IF NOT EXISTS idx_dlq_arrivals_original_topic ON dlq.dlq_arrivals (original_topic, step, at)
    WHERE group_id = '00000000-0000-0000-0000-000000000000';

-- dlq_count_batches: the latest changes, which are not in the sums yet.
--
-- After each statement that changes messages, a trigger appends rows in the same transaction. Each row is for a
-- pair of topics and a status, and has arrays with an element for each group. So writers do not wait for each
-- other, and in every snapshot the sums plus the changes are exact. A sweep, every 20 seconds, adds the changes
-- to the sums.
CREATE TABLE IF NOT EXISTS dlq.dlq_count_batches (
    dlq_topic      VARCHAR(255)  NOT NULL,
    original_topic VARCHAR(255)  NOT NULL,
    status         VARCHAR(50)   NOT NULL,
    group_ids      UUID[]        NOT NULL, -- an element is null for messages in no group
    messages       BIGINT[]      NOT NULL, -- how much the count changes; negative if it falls
    -- The time of the newest of an element's new messages. New messages of different minutes have different elements.
    -- For other changes the element or the array is null.
    arrived_at     TIMESTAMPTZ[]
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- dlq_uncounted: the changes in dlq_count_batches, a row for each element of the arrays.
CREATE OR REPLACE VIEW dlq.dlq_uncounted AS
SELECT b.dlq_topic, b.original_topic, c.group_id, b.status, c.messages,
    CASE WHEN c.arrived_at IS NULL THEN 0 ELSE c.messages END AS arrived, c.arrived_at
FROM dlq.dlq_count_batches b
CROSS JOIN LATERAL unnest(b.group_ids, b.messages, b.arrived_at) AS c (group_id, messages, arrived_at);

-- dlq_topic_counts: how many messages of each pair of topics have each status.
CREATE OR REPLACE VIEW dlq.dlq_topic_counts AS
SELECT dlq_topic, original_topic, status, sum(messages)::bigint AS messages
FROM (SELECT dlq_topic, original_topic, status, messages FROM dlq.dlq_topic_count_sums
      UNION ALL
      SELECT dlq_topic, original_topic, status, messages FROM dlq.dlq_uncounted) AS part
GROUP BY dlq_topic, original_topic, status
HAVING sum(messages) <> 0;

-- The triggers count the changes of every program, even if its role has no rights on the tables above.
-- A restored message or an edited copy counts as a message of its group, but not as an arrival. A
-- transaction that stores such copies sets the parameter dlq.copies.
CREATE OR REPLACE FUNCTION dlq.count_messages() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO dlq.dlq_count_batches (dlq_topic, original_topic, status, group_ids, messages, arrived_at)
        SELECT dlq_topic, original_topic, status, array_agg(group_id), array_agg(messages), array_agg(arrived_at)
        FROM (SELECT dlq_topic, original_topic, status, group_id, count(*) AS messages,
                  CASE WHEN current_setting('dlq.copies', true) = 'on' THEN NULL ELSE max(created_at) END AS arrived_at
              FROM inserted
              GROUP BY dlq_topic, original_topic, status, group_id, date_trunc('minute', created_at)) AS change
        GROUP BY dlq_topic, original_topic, status;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO dlq.dlq_count_batches (dlq_topic, original_topic, status, group_ids, messages)
        SELECT dlq_topic, original_topic, status, array_agg(group_id), array_agg(messages)
        FROM (SELECT dlq_topic, original_topic, status, group_id, sum(messages) AS messages
              FROM (SELECT dlq_topic, original_topic, status, group_id, 1 AS messages FROM updated
                    UNION ALL
                    SELECT dlq_topic, original_topic, status, group_id, -1 FROM outdated) AS row_change
              GROUP BY dlq_topic, original_topic, status, group_id
              HAVING sum(messages) <> 0) AS change
        GROUP BY dlq_topic, original_topic, status;
    ELSE
        INSERT INTO dlq.dlq_count_batches (dlq_topic, original_topic, status, group_ids, messages)
        SELECT dlq_topic, original_topic, status, array_agg(group_id), array_agg(messages)
        FROM (SELECT dlq_topic, original_topic, status, group_id, -count(*) AS messages
              FROM deleted
              GROUP BY dlq_topic, original_topic, status, group_id) AS change
        GROUP BY dlq_topic, original_topic, status;
    END IF;
    RETURN NULL;
END;
$$;

-- Adds the arrivals in dlq_count_batches to the two tables of arrivals, before the batches are deleted.
CREATE OR REPLACE FUNCTION dlq.keep_arrivals() RETURNS VOID LANGUAGE sql AS $$
    INSERT INTO dlq.dlq_group_arrivals AS a (group_id, arrived, last_seen)
    SELECT group_id, sum(arrived), max(arrived_at)
    FROM dlq.dlq_uncounted
    WHERE group_id IS NOT NULL AND arrived > 0
    GROUP BY group_id
    ON CONFLICT (group_id) DO UPDATE SET arrived = a.arrived + EXCLUDED.arrived, last_seen = greatest(a.last_seen, EXCLUDED.last_seen);
    INSERT INTO dlq.dlq_arrivals AS a (group_id, step, at, dlq_topic, original_topic, arrived)
    SELECT COALESCE(u.group_id, '00000000-0000-0000-0000-000000000000'), s.step, date_trunc(s.step, u.arrived_at, 'UTC'),
        u.dlq_topic, u.original_topic, sum(u.arrived)
    FROM dlq.dlq_uncounted u
    CROSS JOIN unnest('{minute,hour}'::text[]) AS s (step)
    WHERE isfinite(u.arrived_at)
    GROUP BY 2, 3, 4, 5, GROUPING SETS ((), (u.group_id))
    HAVING grouping(u.group_id) = 1 OR u.group_id <> '00000000-0000-0000-0000-000000000000'
    ON CONFLICT (group_id, step, at, dlq_topic, original_topic) DO UPDATE SET arrived = a.arrived + EXCLUDED.arrived;
$$;

CREATE OR REPLACE FUNCTION dlq.count_no_messages() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    LOCK TABLE dlq.dlq_count_batches IN ACCESS EXCLUSIVE MODE;
    PERFORM dlq.keep_arrivals();
    -- A DELETE would leave rows that the transaction cannot see.
    TRUNCATE dlq.dlq_count_batches, dlq.dlq_topic_count_sums, dlq.dlq_group_count_sums;
    RETURN NULL;
END;
$$;

-- Other roles may not use these functions in triggers on their own tables. A role needs no right to fire the triggers below.
REVOKE EXECUTE ON FUNCTION dlq.count_messages(), dlq.count_no_messages() FROM PUBLIC;

CREATE OR REPLACE TRIGGER trg_dlq_messages_inserted AFTER INSERT ON dlq.dlq_messages
    REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION dlq.count_messages();
CREATE OR REPLACE TRIGGER trg_dlq_messages_updated AFTER UPDATE ON dlq.dlq_messages
    REFERENCING OLD TABLE AS outdated NEW TABLE AS updated FOR EACH STATEMENT EXECUTE FUNCTION dlq.count_messages();
CREATE OR REPLACE TRIGGER trg_dlq_messages_deleted AFTER DELETE ON dlq.dlq_messages
    REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT EXECUTE FUNCTION dlq.count_messages();
CREATE OR REPLACE TRIGGER trg_dlq_messages_truncated AFTER TRUNCATE ON dlq.dlq_messages
    FOR EACH STATEMENT EXECUTE FUNCTION dlq.count_no_messages();

-- Counts all messages anew. This is for a data-only restore, which counts messages twice, and for
-- logical replication, which does not count them. Arrivals are not counted anew, because messages may
-- have been deleted or archived. Arrivals in dlq_count_batches are added to their tables.
CREATE OR REPLACE FUNCTION dlq.recount_messages() RETURNS VOID
LANGUAGE plpgsql
AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'messages can only be counted anew in a transaction that is READ COMMITTED'
            USING HINT = 'Others may have changed messages since the transaction began, which it cannot see.';
    END IF;
    LOCK TABLE dlq.dlq_messages IN SHARE ROW EXCLUSIVE MODE;
    LOCK TABLE dlq.dlq_count_batches, dlq.dlq_topic_count_sums, dlq.dlq_group_count_sums, dlq.dlq_group_arrivals, dlq.dlq_arrivals
        IN SHARE ROW EXCLUSIVE MODE;
    PERFORM dlq.keep_arrivals();
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
    INSERT INTO dlq.dlq_group_arrivals (group_id, arrived, last_seen)
    SELECT group_id, count(*), max(created_at)
    FROM dlq.dlq_messages
    WHERE group_id IS NOT NULL
    GROUP BY group_id
    ON CONFLICT (group_id) DO NOTHING;
END;
$$;
