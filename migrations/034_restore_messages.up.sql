-- dlq-db: archived messages are listed and restored

-- A restored message is a copy. It counts as a message of its group, but not as another failure.
CREATE OR REPLACE FUNCTION dlq.count_inserted_messages() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO dlq.dlq_count_batches (dlq_topic, original_topic, status, group_ids, messages, arrived_at)
    SELECT dlq_topic, original_topic, status, array_agg(group_id), array_agg(messages), array_agg(arrived_at)
    FROM (SELECT dlq_topic, original_topic, status, group_id, count(*) AS messages,
              CASE WHEN current_setting('dlq.copies', true) = 'on' THEN NULL ELSE max(created_at) END AS arrived_at
          FROM inserted
          GROUP BY dlq_topic, original_topic, status, group_id) AS change
    GROUP BY dlq_topic, original_topic, status;
    RETURN NULL;
END;
$$;

-- The archive took over the first indexes of dlq_messages, which nothing reads. The next two migrations build
-- those of its lists.
DROP INDEX IF EXISTS dlq.dlq_messages_archive_original_topic_idx, dlq.dlq_messages_archive_status_idx, dlq.dlq_messages_archive_created_at_idx;
