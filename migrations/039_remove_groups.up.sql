-- dlq-db: groups without messages are removed, and archived messages are listed by group

-- Whether a group has archived messages, and these in the order of lists.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_archive_group ON dlq.dlq_messages_archive (group_id, status, created_at, seq)
    WHERE group_id IS NOT NULL;

-- In which dead-letter topics an original topic has archived messages. Equal entries are stored once.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_archive_topics ON dlq.dlq_messages_archive (original_topic, dlq_topic);
