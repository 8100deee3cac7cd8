-- dlq-db: an acknowledgement counts, whoever has claimed the message meanwhile

-- Lock both tables at once. Locked one after the other, they would deadlock with the
-- statements of running workers. Between two tries, other sessions continue.
DO $$
BEGIN
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '900ms', true); -- below deadlock_timeout
            LOCK TABLE dlq.dlq_messages, dlq.dlq_retry_attempts IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            PERFORM pg_sleep(0.3);
        END;
    END LOOP;
    PERFORM set_config('lock_timeout', '0', true);
END;
$$;

-- dlq_retry_attempts also has the retries whose delivery was acknowledged after they had lost
-- their claim, with the result delivered. These columns are as in dlq_messages, and null for all
-- other attempts.
ALTER TABLE dlq.dlq_retry_attempts
    ADD COLUMN IF NOT EXISTS target_id        INT,
    ADD COLUMN IF NOT EXISTS target_partition INT,
    ADD COLUMN IF NOT EXISTS target_offset    BIGINT;

-- A message that another retry has delivered does not become PENDING or DEAD, whatever the
-- present retry ends with, and whoever marks the message dead. It is RESOLVED by the retry that
-- delivered it.
CREATE OR REPLACE FUNCTION dlq.keep_delivery() RETURNS TRIGGER
LANGUAGE plpgsql
AS $$
DECLARE
    delivery dlq.dlq_retry_attempts;
BEGIN
    SELECT * INTO delivery
    FROM dlq.dlq_retry_attempts
    WHERE message_id = NEW.id AND result = 'delivered'
    ORDER BY id DESC
    LIMIT 1;
    IF FOUND THEN
        NEW.status = 'RESOLVED';
        NEW.resolution = 'delivered';
        NEW.workflow_id = delivery.workflow_id;
        NEW.owner_token = delivery.owner_token;
        NEW.target_id = delivery.target_id;
        NEW.target_partition = delivery.target_partition;
        NEW.target_offset = delivery.target_offset;
    END IF;
    RETURN NEW;
END;
$$;
REVOKE EXECUTE ON FUNCTION dlq.keep_delivery() FROM PUBLIC;

CREATE OR REPLACE TRIGGER trg_dlq_messages_delivered
    BEFORE UPDATE ON dlq.dlq_messages
    FOR EACH ROW
    WHEN (OLD.status = 'RETRYING' AND NEW.status IN ('PENDING', 'DEAD'))
    EXECUTE FUNCTION dlq.keep_delivery();
