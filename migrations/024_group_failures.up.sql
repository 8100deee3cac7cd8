-- dlq-db: failures with the same cause are one group

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
END;
$$;

-- The group of a message; null for messages of earlier versions and other programs. The
-- archive takes rows as they are, so it has the same columns in the same order.
ALTER TABLE dlq.dlq_messages ADD COLUMN IF NOT EXISTS group_id UUID;
ALTER TABLE dlq.dlq_messages_archive ADD COLUMN IF NOT EXISTS group_id UUID;

-- The messages of a group, as the indexes of topics have them: without RETRYING ones.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_group ON dlq.dlq_messages (group_id, status, created_at, seq)
    WHERE group_id IS NOT NULL AND status <> 'RETRYING';

-- dlq_groups: the causes of failures. The first row below the id describes the fingerprint,
-- whose hash is the id. The others are what operators note.
CREATE TABLE IF NOT EXISTS dlq.dlq_groups (
    id               UUID         PRIMARY KEY,
    version          INT          NOT NULL,            -- of the rules
    scope            TEXT         NOT NULL,            -- consumer group, else dead-letter topic
    rule             VARCHAR(50)  NOT NULL,            -- explicit, frame, frame_and_message, message or overflow
    class            TEXT         NOT NULL,            -- of the innermost cause
    frame            TEXT         NOT NULL,            -- where it was thrown
    message          TEXT         NOT NULL,            -- with its variables taken out
    dlq_topic        VARCHAR(255) NOT NULL,            -- of the first message
    first_seen       TIMESTAMPTZ  NOT NULL DEFAULT NOW(),

    owner            TEXT         NOT NULL DEFAULT '',
    ticket           TEXT         NOT NULL DEFAULT '', -- a link
    note             TEXT         NOT NULL DEFAULT '',
    state            VARCHAR(50)  NOT NULL DEFAULT 'open',
    state_at         TIMESTAMPTZ  NOT NULL DEFAULT NOW(),
    state_reason     TEXT         NOT NULL DEFAULT '', -- why a held or fixed group is open again
    held_until       TIMESTAMPTZ,                      -- a held group opens at this time,
    held_until_count BIGINT,                           -- or with so many arrivals in all,
    held_until_rate  BIGINT,                           -- or with so many in an hour
    regressed_by     UUID,                             -- the message that failed after the fix

    CONSTRAINT chk_dlq_groups_state CHECK (state IN ('open', 'held', 'fixed'))
);

-- The newest groups; the groups of a topic, which are limited in number; those that the sweeper opens.
CREATE INDEX IF NOT EXISTS idx_dlq_groups_first_seen ON dlq.dlq_groups (first_seen, id);
CREATE INDEX IF NOT EXISTS idx_dlq_groups_dlq_topic ON dlq.dlq_groups (dlq_topic);
CREATE INDEX IF NOT EXISTS idx_dlq_groups_held ON dlq.dlq_groups (id) WHERE state = 'held';

-- dlq_group_fixes: the end of each partition of the original topics when a group was fixed.
-- A record before it failed before the fix.
CREATE TABLE IF NOT EXISTS dlq.dlq_group_fixes (
    group_id   UUID         NOT NULL REFERENCES dlq.dlq_groups ON DELETE CASCADE,
    topic      VARCHAR(255) NOT NULL, -- original topic
    partition  INT          NOT NULL,
    end_offset BIGINT       NOT NULL,

    PRIMARY KEY (group_id, topic, partition)
);

-- dlq_group_count_sums: how many messages of each group and pair of topics have each
-- status, but for the latest changes.
CREATE TABLE IF NOT EXISTS dlq.dlq_group_count_sums (
    group_id       UUID         NOT NULL,
    dlq_topic      VARCHAR(255) NOT NULL,
    original_topic VARCHAR(255) NOT NULL,
    status         VARCHAR(50)  NOT NULL,
    messages       BIGINT       NOT NULL,

    PRIMARY KEY (group_id, dlq_topic, original_topic, status)
);

-- dlq_group_arrivals: how many messages of each group were ever stored, and when, but for
-- the latest. Messages that are deleted or archived stay counted.
CREATE TABLE IF NOT EXISTS dlq.dlq_group_arrivals (
    group_id       UUID        PRIMARY KEY,
    arrived        BIGINT      NOT NULL,
    last_seen      TIMESTAMPTZ NOT NULL,
    hour           TIMESTAMPTZ NOT NULL, -- the one that is being counted
    hour_count     BIGINT      NOT NULL, -- arrivals in it
    previous_count BIGINT      NOT NULL  -- arrivals in the hour before
);

-- dlq_count_changes: what has to be added to the sums of topics and groups. It replaces
-- dlq_topic_count_changes, which stays for workers of earlier versions: they would add its
-- rows to the topics only.
CREATE TABLE IF NOT EXISTS dlq.dlq_count_changes (
    dlq_topic      VARCHAR(255) NOT NULL,
    original_topic VARCHAR(255) NOT NULL,
    group_id       UUID,
    status         VARCHAR(50)  NOT NULL,
    messages       BIGINT       NOT NULL, -- negative where there are fewer
    arrived        BIGINT       NOT NULL, -- how many of them are new
    arrived_at     TIMESTAMPTZ            -- the newest of these
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

WITH moved AS (
    DELETE FROM dlq.dlq_topic_count_changes RETURNING dlq_topic, original_topic, status, messages
)
INSERT INTO dlq.dlq_count_changes (dlq_topic, original_topic, status, messages, arrived)
SELECT dlq_topic, original_topic, status, sum(messages), 0
FROM moved
GROUP BY dlq_topic, original_topic, status;

CREATE OR REPLACE VIEW dlq.dlq_topic_counts AS
SELECT dlq_topic, original_topic, status, sum(messages)::bigint AS messages
FROM (SELECT dlq_topic, original_topic, status, messages FROM dlq.dlq_topic_count_sums
      UNION ALL
      SELECT dlq_topic, original_topic, status, messages FROM dlq.dlq_count_changes) AS part
GROUP BY dlq_topic, original_topic, status
HAVING sum(messages) <> 0;

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

-- As before, and counts the groups too. Arrivals of messages that were deleted or archived
-- cannot be counted anew. So arrivals stay as they are, but for those that were not added yet.
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
