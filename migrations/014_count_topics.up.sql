-- dlq-db: how many messages there are, known at any time

-- dlq_topic_count_sums: how many messages of each pair of topics have each status, but for
-- the latest changes.
CREATE TABLE IF NOT EXISTS dlq.dlq_topic_count_sums (
    dlq_topic      VARCHAR(255) NOT NULL,
    original_topic VARCHAR(255) NOT NULL,
    status         VARCHAR(50)  NOT NULL,
    messages       BIGINT       NOT NULL,

    PRIMARY KEY (dlq_topic, original_topic, status)
);

-- dlq_topic_count_changes: what has to be added to the sums.
--
-- Whoever changes messages appends here, in the same transaction, so no two of them wait
-- for each other, and sums and changes together are exact in every snapshot. The sweeper
-- adds the changes to the sums from time to time.
CREATE TABLE IF NOT EXISTS dlq.dlq_topic_count_changes (
    dlq_topic      VARCHAR(255) NOT NULL,
    original_topic VARCHAR(255) NOT NULL,
    status         VARCHAR(50)  NOT NULL,
    messages       BIGINT       NOT NULL -- negative where there are fewer
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- dlq_topic_counts: how many messages of each pair of topics have each status.
CREATE OR REPLACE VIEW dlq.dlq_topic_counts AS
SELECT dlq_topic, original_topic, status, sum(messages)::bigint AS messages
FROM (SELECT dlq_topic, original_topic, status, messages FROM dlq.dlq_topic_count_sums
      UNION ALL
      SELECT dlq_topic, original_topic, status, messages FROM dlq.dlq_topic_count_changes) AS part
GROUP BY dlq_topic, original_topic, status
HAVING sum(messages) <> 0;

-- The triggers count for every program that changes messages, also where its role may
-- not touch the tables above.
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

-- Counts every message anew; nobody can change messages meanwhile. It is for a database
-- whose messages were loaded in another way than the counts: by a restore of data only,
-- which loads the counts and has the triggers count as well, or by logical replication,
-- which has nobody count.
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
    -- A DELETE would leave what the transaction cannot see.
    TRUNCATE dlq.dlq_topic_count_changes, dlq.dlq_topic_count_sums;
    RETURN NULL;
END;
$$;

-- Nobody else may put these on a table of their own. Triggers ask for no right.
REVOKE EXECUTE ON FUNCTION dlq.count_inserted_messages(), dlq.count_updated_messages(), dlq.count_deleted_messages(),
    dlq.count_no_messages() FROM PUBLIC;

CREATE OR REPLACE TRIGGER trg_dlq_messages_inserted
    AFTER INSERT ON dlq.dlq_messages REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION dlq.count_inserted_messages();
CREATE OR REPLACE TRIGGER trg_dlq_messages_updated
    AFTER UPDATE ON dlq.dlq_messages REFERENCING OLD TABLE AS outdated NEW TABLE AS updated
    FOR EACH STATEMENT EXECUTE FUNCTION dlq.count_updated_messages();
CREATE OR REPLACE TRIGGER trg_dlq_messages_deleted
    AFTER DELETE ON dlq.dlq_messages REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION dlq.count_deleted_messages();
CREATE OR REPLACE TRIGGER trg_dlq_messages_truncated
    AFTER TRUNCATE ON dlq.dlq_messages
    FOR EACH STATEMENT EXECUTE FUNCTION dlq.count_no_messages();

SELECT dlq.recount_messages();
