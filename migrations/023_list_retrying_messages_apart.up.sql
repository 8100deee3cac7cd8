-- dlq-db: a retry writes fewer index entries

-- A bulk retry changes the status of each message twice, and each time wrote an entry to both
-- indexes of lists. Now these leave out RETRYING messages. There are few of them: those that
-- a lane has claimed are in its page, and all others are in an index of their own.

-- Lock all tables at once. Locked one after the other, they would deadlock with the
-- statements of running workers. Between two tries, other sessions continue.
DO $$
BEGIN
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '900ms', true); -- below deadlock_timeout
            LOCK TABLE dlq.dlq_messages, dlq.dlq_messages_archive, dlq.dlq_bulk_retries, dlq.dlq_bulk_retry_lanes IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            PERFORM pg_sleep(0.3);
        END;
    END LOOP;
    PERFORM set_config('lock_timeout', '0', true);
END;
$$;

-- Whether the message is in the page of a lane, which has claimed it. The column means nothing
-- unless the message is RETRYING. The archive takes rows as they are.
ALTER TABLE dlq.dlq_messages ADD COLUMN IF NOT EXISTS in_page BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE dlq.dlq_messages_archive ADD COLUMN IF NOT EXISTS in_page BOOLEAN NOT NULL DEFAULT false;

CREATE OR REPLACE FUNCTION dlq.leave_page() RETURNS TRIGGER
LANGUAGE plpgsql
AS $$
BEGIN
    NEW.in_page = false;
    RETURN NEW;
END;
$$;

-- Earlier versions and other programs do not know the column. They leave it set when they
-- finalize a message of a page, and may then retry the message by itself.
CREATE OR REPLACE TRIGGER trg_dlq_messages_left_page
    BEFORE UPDATE ON dlq.dlq_messages
    FOR EACH ROW
    WHEN (OLD.in_page AND OLD.status <> 'RETRYING' AND NEW.status = 'RETRYING')
    EXECUTE FUNCTION dlq.leave_page();

-- Messages of a page that nobody finalizes any more: the row of the lane was deleted, or the
-- job has ended.
CREATE OR REPLACE FUNCTION dlq.abandon_page() RETURNS TRIGGER
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE dlq.dlq_messages SET in_page = false WHERE id = ANY (OLD.page) AND status = 'RETRYING';
    RETURN NULL;
END;
$$;
CREATE OR REPLACE TRIGGER trg_dlq_bulk_retry_lanes_deleted
    AFTER DELETE ON dlq.dlq_bulk_retry_lanes
    FOR EACH ROW
    WHEN (OLD.page <> '{}')
    EXECUTE FUNCTION dlq.abandon_page();

CREATE OR REPLACE FUNCTION dlq.abandon_pages() RETURNS TRIGGER
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE dlq.dlq_messages SET in_page = false
    WHERE id = ANY (ARRAY(SELECT unnest(page) FROM dlq.dlq_bulk_retry_lanes_now WHERE bulk_id = NEW.id)) AND status = 'RETRYING';
    RETURN NULL;
END;
$$;
CREATE OR REPLACE TRIGGER trg_dlq_bulk_retries_ended
    AFTER UPDATE ON dlq.dlq_bulk_retries
    FOR EACH ROW
    WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL)
    EXECUTE FUNCTION dlq.abandon_pages();

-- Finds the RETRYING messages that are in no page, those of a key in the order of arrival.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_retrying ON dlq.dlq_messages (key_hash, seq) WHERE status = 'RETRYING' AND NOT in_page;

-- dlq_retrying: the ids of all RETRYING messages, and of some that no longer are. An id may
-- occur twice.
CREATE OR REPLACE VIEW dlq.dlq_retrying AS
SELECT id
FROM dlq.dlq_messages
WHERE status = 'RETRYING' AND NOT in_page
UNION ALL
SELECT p.id
FROM dlq.dlq_bulk_retries b
JOIN dlq.dlq_bulk_retry_lanes_now l ON l.bulk_id = b.id
CROSS JOIN LATERAL unnest(l.page) AS p (id)
WHERE b.ended_at IS NULL;

-- The lists of earlier versions need the former indexes, which remain until this procedure
-- replaces them. It is for the time when no earlier version runs.
CREATE INDEX IF NOT EXISTS idx_dlq_messages_original_topic_listed ON dlq.dlq_messages (original_topic, status, created_at, seq)
    WHERE status <> 'RETRYING';
CREATE INDEX IF NOT EXISTS idx_dlq_messages_dlq_topic_listed ON dlq.dlq_messages (dlq_topic, status, created_at, seq)
    WHERE status <> 'RETRYING';

CREATE OR REPLACE PROCEDURE dlq.replace_former_indexes()
LANGUAGE plpgsql
AS $$
BEGIN
    IF to_regclass('dlq.idx_dlq_messages_original_topic_listed') IS NULL THEN
        RETURN; -- done before
    END IF;
    DROP INDEX IF EXISTS dlq.idx_dlq_messages_retrying_alone, dlq.idx_dlq_messages_original_topic, dlq.idx_dlq_messages_dlq_topic;
    ALTER INDEX dlq.idx_dlq_messages_original_topic_listed RENAME TO idx_dlq_messages_original_topic;
    ALTER INDEX dlq.idx_dlq_messages_dlq_topic_listed RENAME TO idx_dlq_messages_dlq_topic;
END;
$$;

-- A new installation has no earlier versions. The migration may also run again after the
-- indexes were replaced.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM dlq.dlq_messages)
        OR EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('dlq.idx_dlq_messages_dlq_topic') AND indpred IS NOT NULL) THEN
        CALL dlq.replace_former_indexes();
    END IF;
END;
$$;
