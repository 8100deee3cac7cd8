-- dlq-db: the database decides what was taken in, and claims are bounded in bytes

-- dlq_ingest_offsets: how far each partition has been taken in.
--
-- A row moves in the transaction that stores the records before it, and only from
-- where its reader believes it to be. So whatever moment the database is restored to,
-- reading goes on from there.
CREATE TABLE IF NOT EXISTS dlq.dlq_ingest_offsets (
    topic_id     UUID         NOT NULL,            -- Kafka's id of the topic: a topic made anew is another
    partition    INT          NOT NULL,
    topic        VARCHAR(255) NOT NULL,
    next_offset  BIGINT       NOT NULL,            -- of the next record to read; -1 is the start of the log
    leader_epoch INT          NOT NULL,            -- of the record before it, or -1
    lost         BIGINT       NOT NULL DEFAULT 0,  -- offsets that Kafka had deleted before they were read
    lost_at      TIMESTAMPTZ,                      -- when that was last noticed
    updated_at   TIMESTAMPTZ  NOT NULL DEFAULT NOW(),

    PRIMARY KEY (topic_id, partition)
) WITH (fillfactor = 50);

-- Records that have been stored already are not read again. Nobody stores one meanwhile.
-- Their messages keep the ids that they have, which do not follow from the records: when
-- such a topic is ever read from its start again, they are stored a second time. A
-- partition of which every message was deleted or purged is read from its start now.
LOCK TABLE dlq.dlq_message_bodies IN SHARE ROW EXCLUSIVE MODE;
INSERT INTO dlq.dlq_ingest_offsets (topic_id, partition, topic, next_offset, leader_epoch)
SELECT topic_id, partition, '', max(record_offset) + 1, -1
FROM dlq.dlq_message_bodies
WHERE topic_id IS NOT NULL AND partition IS NOT NULL AND record_offset IS NOT NULL
GROUP BY topic_id, partition
ON CONFLICT DO NOTHING;

-- The id of a message follows from its record, so the primary key tells records apart.
ALTER TABLE dlq.dlq_message_bodies DROP CONSTRAINT IF EXISTS uq_dlq_message_bodies_source;

-- Bytes of key, value and headers; 0 where a row was written by hand, or before this
-- column. A claim stops at a budget of bytes. The archive takes rows as they are.
ALTER TABLE dlq.dlq_messages ADD COLUMN IF NOT EXISTS size INT NOT NULL DEFAULT 0;
ALTER TABLE dlq.dlq_messages_archive ADD COLUMN IF NOT EXISTS size INT NOT NULL DEFAULT 0;
