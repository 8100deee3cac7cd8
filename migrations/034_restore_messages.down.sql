CREATE INDEX IF NOT EXISTS dlq_messages_archive_original_topic_idx ON dlq.dlq_messages_archive (original_topic);
CREATE INDEX IF NOT EXISTS dlq_messages_archive_status_idx ON dlq.dlq_messages_archive (status);
CREATE INDEX IF NOT EXISTS dlq_messages_archive_created_at_idx ON dlq.dlq_messages_archive (created_at);

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
